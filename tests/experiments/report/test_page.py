"""The page's frame: what is embedded cannot get out of its block, and nothing on the page can ask anybody."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.experiments.report.write import embed, render_page

PAYLOAD = {"made": "now", "runs": [], "bands": [], "tables": []}


class Scripts(HTMLParser):
    """Collects the script elements as a browser would delimit them."""

    def __init__(self):
        super().__init__()
        self.found, self._inside = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.found.append([dict(attrs).get("type"), ""])
            self._inside = True

    def handle_endtag(self, tag):
        self._inside = self._inside and tag != "script"

    def handle_data(self, data):
        if self._inside:
            self.found[-1][1] += data


def scripts_of(page):
    parser = Scripts()
    parser.feed(page)
    return parser.found


dangerous = st.sampled_from(
    ["</script>", "<!--", "<script>", "-->", "]]>", "&lt;", "\u2028", "{{script}}", "\ud800", "\x00"]
)
texts = st.lists(st.text(max_size=20) | dangerous, max_size=4).map("".join)


@given(texts)
def test_any_text_stays_in_its_block_and_comes_back(text):
    page = render_page(PAYLOAD | {"runs": [text]}, title=text)
    data, code = scripts_of(page)
    assert data[0] == "application/json"
    assert json.loads(data[1])["runs"] == [text]
    assert code[0] == "module"
    assert len(scripts_of(page)) == 2


def test_the_block_holds_nothing_that_could_begin_markup():
    assert not re.search("[<>&\u2028\u2029]", embed({"x": "</script><img onerror=1>&\u2028\u2029"}))


def test_the_policy_allows_exactly_the_pages_own_script_and_style():
    page = render_page(PAYLOAD, "t")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page).group(1)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    _, (_, code) = scripts_of(page)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["connect-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert rules["style-src"].startswith("'sha256-")
    assert "unsafe" not in policy


def test_only_the_served_page_may_ask_its_server():
    page = render_page(PAYLOAD, "t", follow=True)
    assert "connect-src 'self'" in page
    assert "data.json" in page
    assert "data.json" not in render_page(PAYLOAD, "t")


def test_no_asset_writes_markup_or_names_a_host():
    page = render_page(PAYLOAD, "t", follow=True)
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert forbidden not in page
    addresses = set(re.findall(r"https?://[^\s\"'`]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
