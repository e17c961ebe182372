// The daemon's page of one QP: asks each second for the QP's newest events while it is looked at, and shows them as `urnic view` does.
// The QP is traced no longer than somebody asks.
"use strict";

(function () {
  const PERIOD_MS = 1000;
  const PATIENCE_MS = 5000;
  const status = document.documentElement.dataset;
  const live = document.getElementById("live");
  // Whoever moves the graph wants it to stay.
  const viewer = new Viewer(() => { live.checked = false; });
  const rounded = new Intl.NumberFormat("en");
  let next = 0, unseen = 0, side = null, timer = null;

  function say(words) { d3.select("#state").text(words); }

  function show({first, next: end, lost, gone, data}) {
    // What was there between two looks, and went before the second.
    if (next > 0 && first > next) unseen += first - next;
    next = Math.max(end, 1);
    status.first = first;
    status.next = end;
    status.lost = lost;
    status.unseen = unseen;
    d3.select("#shortfall").text(data.shortfall + (unseen > 0 ? ` ${rounded.format(unseen)} events went by between two looks.` : ""));
    const {connections} = readModel(data);
    document.title = `urnicd ${data.source}`;
    if (connections[0].length === 0) d3.select("#name").text(`${data.source}: no event yet`);
    else viewer.show(connections[0], side);
    say(gone ? "This QP is destroyed." : `${rounded.format(end)} events since somebody looks`);
    document.body.className = "";
    if (gone) live.checked = false;
  }

  async function ask() {
    clearTimeout(timer);
    if (!live.checked) return;
    // A page that nobody sees asks for nothing.
    if (!document.hidden) {
      try {
        const answer = await fetch(`${location.pathname.replace(/\/$/, "")}/events`, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
        const text = await answer.text();
        if (!answer.ok) throw new Error(text.trim());
        if (live.checked) show(JSON.parse(text));
      } catch (error) {
        say(`no events: ${error.message}`);
        document.body.className = "stale";
      }
      status.asked = Number(status.asked || 0) + 1;
    }
    timer = setTimeout(ask, PERIOD_MS);
  }

  d3.select("#side").on("input", function () { side = Number(this.value); });
  live.addEventListener("change", ask);
  ask();
}());
