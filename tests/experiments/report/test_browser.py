"""The report as a browser shows it: silent, self-contained, clickable, and deaf to what candidates write."""

import threading

import pytest

pytest.importorskip("selenium", reason="selenium comes with the dev extra")

from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.follow import LiveReport, LiveServer
from atlas_gym.experiments.report.write import write_report
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.browser import chromium, needs_browser
from tests.experiments.report.synthetic import ATTACK, Layout, call, make_run

pytestmark = needs_browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def url(run_folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("report") / "report.html"
    return write_report([run_folder], output)[0].as_uri()


@pytest.fixture
def opened(page, url):
    page.open(url)
    yield page
    assert page.problems() == []
    assert page.requests() == [url]
    assert page.driver.title.endswith("ATLAS Gym")


def test_a_click_on_a_node_opens_its_diff(opened, run_folder):
    candidates = read_run(run_folder).candidates
    position = {record.id: i for i, record in enumerate(candidates)}
    improving = [c for c in candidates if c.gain is not None and c.gain > 0][:4]
    assert len(improving) == 4
    for record in improving:
        opened.click_node(position[record.id])
        assert f"Candidate {record.id}" in opened.text(".candidate h3")
        before = candidates[position[record.parent_id]].program.split("\n")
        after = record.program.split("\n")
        assert opened.diff("removed") == [line for line in before if line not in after]
        assert opened.diff("added") == [line for line in after if line not in before]
        facts = opened.text(".facts")
        assert f"Round, island{record.round}, {record.island}" in facts
        assert f"Feedback{record.diagnosis}" in facts


def test_arrow_keys_walk_to_the_parent_and_back(opened, run_folder):
    run = read_run(run_folder)
    title = "return document.querySelector('.candidate h3').textContent"
    press = (
        "document.querySelector('svg.lineage').dispatchEvent("
        "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
    )
    assert f"Candidate {run.best.id}" in opened.js(title)
    opened.js(press, "ArrowLeft")
    assert f"Candidate {run.best.parent_id}" in opened.js(title)
    opened.js(press, "ArrowRight")
    assert f"Candidate {run.best.id}" in opened.js(title)


def test_hostile_text_stays_text(opened, run_folder):
    candidates = read_run(run_folder).candidates
    index = next(i for i, c in enumerate(candidates) if ATTACK in c.program)
    opened.click_node(index)
    assert any(ATTACK in line for line in opened.diff("added"))
    assert ATTACK in opened.text(".facts")
    assert ATTACK in opened.text(".calls")
    # What cannot be seen is shown as an escape, not obeyed.
    assert "\\u202e" in opened.text(".diff")
    assert opened.js("return document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
    assert opened.js("return document.querySelectorAll('script').length") == 2


def test_every_section_is_there_and_drawn(opened):
    ids = opened.js("return [...document.querySelectorAll('section')].map(s => s.id)")
    assert ids == ["overview", "scores", "lineage", "gate", "supporters", "islands", "environment", "tables"]
    opened.wait(
        lambda: opened.js(
            "return [...document.querySelectorAll('.chart')].every(c => c.querySelector('svg'))"
        )
    )
    assert opened.js(
        "return [...document.querySelectorAll('img')].every(i => i.complete && i.naturalWidth > 300)"
    )


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_sticks_out_at_any_width(opened, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    opened.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        opened.js("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert opened.js("return document.documentElement.scrollWidth") <= width
    finally:
        opened.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_several_runs_are_compared_and_each_can_be_chosen(page, several_runs, tmp_path):
    output = write_report(several_runs, tmp_path / "report.html", pictures=False)[0]
    page.open(output.as_uri())
    assert page.js("return document.querySelector('section').id") == "comparison"
    page.js(
        "const s = document.querySelector('header select'); s.value = 4;"
        "s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert page.js("return document.querySelector('#overview h2').textContent") == "evotune-2"
    assert page.problems() == []
    assert page.requests() == [output.as_uri()]


def test_the_served_page_shows_what_a_run_adds(page, tmp_path):
    folder = make_run(tmp_path / "run", Layout(rounds=2), finished=False)
    with LiveServer(LiveReport([folder], pictures=False), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        origin = f"http://127.0.0.1:{server.server_port}/"
        try:
            page.open(origin)
            with RunStore(folder) as store:
                store.add_round(3, [], {"round": 3}, calls=[call("inspector", "news")])
            page.wait(lambda: "news" in page.js("return document.getElementById('supporters').textContent"))
            assert {url.removeprefix(origin) for url in page.requests()} == {"", "data.json"}
            assert page.problems() == []
        finally:
            page.driver.get("about:blank")
            server.shutdown()
            thread.join()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_five_thousand_candidates_load_in_three_seconds_and_fifteen_megabytes(page, tmp_path):
    layout = Layout(rounds=104, planned_rounds=104, islands=6, samples=8, phase_every=8, long_programs=True)
    output = write_report([make_run(tmp_path / "big", layout)], tmp_path / "report.html")[0]
    assert output.stat().st_size < 15 * 2**20
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    seconds = []
    for _ in range(3):
        page.open(output.as_uri())
        metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        # What the page's own thread has computed: how long it waited for a processor is the machine's affair.
        seconds.append(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))
    clock = page.js("return performance.now()")
    print(
        f"{output.stat().st_size / 2**20:.1f} MiB; computing {min(seconds):.2f} s; by the clock {clock / 1000:.2f} s"
    )
    assert page.js("return document.querySelectorAll('.nodes circle').length") > 2500
    assert min(seconds) < 3
