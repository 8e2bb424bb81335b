// Only in the page that `--follow` serves: asks the server for news and draws again when there are some.

const EVERY_MS = 4000;
let version = null;

async function poll() {
  try {
    const answer = await fetch("data.json", {headers: version ? {"If-None-Match": version} : {}, cache: "no-store"});
    if (answer.status === 200) {
      const known = version !== null;
      version = answer.headers.get("ETag");
      const data = await answer.json();
      if (known) redraw(data);
    }
    page.classList.remove("offline");
  } catch {
    page.classList.add("offline");
  }
  setTimeout(poll, EVERY_MS);
}

// The charts are drawn a frame after the page is put together; only then is there something to scroll to.
function redraw(data) {
  const top = window.scrollY;
  show(data);
  requestAnimationFrame(() => requestAnimationFrame(() => window.scrollTo({top, behavior: "instant"})));
}

poll();
