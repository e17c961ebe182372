// Ties the page together. The place behind "#" says what is shown: #1 the second QP, #1/rnr_waits a finding of it, so that such a
// place can be handed on.
"use strict";

(function () {
  const model = readModel(JSON.parse(document.getElementById("data").textContent));
  const status = document.documentElement.dataset;
  const graph = new Graph(drawn => {
    const [from, to] = drawn.x.domain();
    status.from = from;
    status.to = to;
    status.drawn = drawn.statistics.drawn;
    status.marks = drawn.statistics.marks;
    status.frames = drawn.statistics.frames;
    status.mostInAFrame = drawn.statistics.mostInAFrame;
    status.ready = Number(status.ready || 0) + 1;
  });
  let chosen = null;

  document.title = `urnic view ${model.source}`;
  d3.select("#source").text(model.source);
  d3.select("#shortfall").text(model.shortfall);

  function look(finding, number) {
    const places = finding.evidence.map(place => chosen.placeOf[place]);
    const place = places[number];
    // Enough around it to see what it belongs to.
    const time = chosen.time[place], whole = chosen.time[chosen.length - 1] - chosen.time[0];
    const around = Math.max(whole / 50, 0.005);
    if (KINDS[chosen.kind[place]].radius > 0 && chosen.side[place] !== graph.side) {
      graph.side = chosen.side[place];
      d3.select("#side").property("value", graph.side);
    }
    graph.showEvidence(place, time - around, time + around);
    d3.select("#nearest").text(chosen.describe(place));
    status.evidence = time;
  }

  function choose(index) {
    chosen = model.connections[index];
    chosen.prepare();
    chooseRow(index);
    d3.select("#name").text(chosen.name);
    showFindings(chosen, look);
    showLegend(chosen);
    showParts(chosen);
    showLatency(chosen);
    // The side that has more packets.
    let responder = 0;
    for (let i = 0; i < chosen.length; i++) responder += KINDS[chosen.kind[i]].radius > 0 && chosen.side[i] === 1 ? 1 : -1;
    const side = responder > 0 ? 1 : 0;
    d3.select("#side").property("value", side);
    graph.show(chosen, side);
  }

  function follow() {
    const [index, id] = decodeURIComponent(location.hash.slice(1)).split("/");
    const number = Number(index);
    if (!Number.isInteger(number) || number < 0 || number >= model.connections.length) return;
    choose(number);
    const finding = chosen.findings.find(one => one.id === id);
    if (finding && finding.evidence.length > 0) look(finding, 0);
  }

  d3.select("#side").on("change", function () { graph.side = Number(this.value); graph.draw(true); });
  d3.select("#all").on("click", () => { graph.mark = null; graph.showAll(); });
  d3.select("#psns").on("mousemove", function () {
    const place = graph.nearest(...d3.mouse(this));
    d3.select("#nearest").text(place < 0 ? "\u00a0" : chosen.describe(place));
  });
  d3.select("#messages").on("mousemove", function () {
    const message = graph.messageAt(...d3.mouse(this));
    d3.select("#message").text(message === null ? "\u00a0" : chosen.describeMessage(message));
  });
  window.addEventListener("resize", () => { if (chosen) { showLatency(chosen); graph.draw(true); } });
  window.addEventListener("hashchange", follow);

  showOverview(model.connections, index => { location.hash = `#${index}`; });
  if (model.connections.length === 0) {
    d3.select("#name").text("The trace has no events of QPs.");
    status.ready = 1;
    return;
  }
  // What has most to say.
  const weight = one => d3.sum(one.findings, finding => 1 + 100 * SEVERITIES[finding.severity]) + one.length / 1e7;
  if (location.hash === "") choose(model.connections.map(weight).reduce((best, value, index, all) => value > all[best] ? index : best, 0));
  else follow();
}());
