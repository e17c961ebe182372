// Ties the page together. The place behind "#" says what is shown: #1 the second QP, #1/rnr_waits a finding of it, #port/3 a port
// of the network, so that such a place can be handed on.
"use strict";

(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const model = readModel(data);
  const viewer = new Viewer(() => {});

  document.title = `urnic view ${model.source}`;
  d3.select("#source").text(model.source);
  d3.select("#shortfall").text(model.shortfall);

  function choose(index) {
    chooseRow(index);
    viewer.show(model.connections[index]);
  }

  function follow() {
    const words = decodeURIComponent(location.hash.slice(1)).split("/"), [index, id] = words;
    if (network !== null && network.follow(words)) return false;
    const number = Number(index);
    if (!Number.isInteger(number) || number < 0 || number >= model.connections.length) return false;
    choose(number);
    const finding = viewer.chosen.findings.find(one => one.id === id);
    if (finding && finding.evidence.length > 0) viewer.look(finding, 0);
    return true;
  }

  window.addEventListener("hashchange", follow);

  const network = data.network === null ? null : new NetworkView(data.network);
  showOverview(model.connections, index => { location.hash = `#${index}`; });
  if (model.connections.length === 0) {
    d3.select("#name").text("The trace has no events of QPs.");
    document.documentElement.dataset.ready = 1;
    return;
  }
  // What has most to say.
  const weight = one => d3.sum(one.findings, finding => 1 + 100 * SEVERITIES[finding.severity]) + one.length / 1e7;
  const most = () => model.connections.map(weight).reduce((best, value, index, all) => value > all[best] ? index : best, 0);
  if (location.hash === "" || !follow()) choose(most());
}());
