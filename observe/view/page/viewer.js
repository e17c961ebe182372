// One connection on the page: its sentences, legend, graph and distribution, and what mouse and buttons do with them.
"use strict";

class Viewer {
  /** `touched` is called when somebody moves the graph or looks at evidence. */
  constructor(touched) {
    this.chosen = null;
    this.touched = touched;
    const status = document.documentElement.dataset;
    this.graph = new Graph(drawn => {
      const [from, to] = drawn.x.domain();
      status.from = from;
      status.to = to;
      status.drawn = drawn.statistics.drawn;
      status.marks = drawn.statistics.marks;
      status.limits = drawn.statistics.limits;
      status.frames = drawn.statistics.frames;
      status.mostInAFrame = drawn.statistics.mostInAFrame;
      status.ready = Number(status.ready || 0) + 1;
    }, touched);
    const viewer = this, graph = this.graph;
    const ifChosen = action => function () { if (viewer.chosen !== null) action.call(this); };
    d3.select("#side").on("change", ifChosen(function () { graph.side = Number(this.value); graph.draw(true); }));
    d3.select("#all").on("click", ifChosen(() => { graph.mark = null; graph.showAll(); }));
    d3.select("#psns").on("mousemove", ifChosen(function () {
      const place = graph.nearest(...d3.mouse(this));
      d3.select("#nearest").text(place < 0 ? "\u00a0" : viewer.chosen.describe(place));
    }));
    d3.select("#messages").on("mousemove", ifChosen(function () {
      const message = graph.messageAt(...d3.mouse(this));
      d3.select("#message").text(message === null ? "\u00a0" : viewer.chosen.describeMessage(message));
    }));
    window.addEventListener("resize", ifChosen(() => { showLatency(viewer.chosen); graph.draw(true); }));
  }

  /** Moves the graph to a piece of a finding's evidence. */
  look(finding, number) {
    const {chosen, graph} = this;
    this.touched();
    const place = chosen.placeOf[finding.evidence[number]];
    // Enough around it to see what it belongs to.
    const time = chosen.time[place], whole = chosen.time[chosen.length - 1] - chosen.time[0];
    const around = Math.max(whole / 50, 0.005);
    if (KINDS[chosen.kind[place]].radius > 0 && chosen.side[place] !== graph.side) {
      graph.side = chosen.side[place];
      d3.select("#side").property("value", graph.side);
    }
    graph.showEvidence(place, time - around, time + around);
    d3.select("#nearest").text(chosen.describe(place));
    document.documentElement.dataset.evidence = time;
  }

  /** `side`: whose PSNs; null: of who has more packets. */
  show(connection, side = null) {
    this.chosen = connection;
    connection.prepare();
    d3.select("#name").text(connection.name);
    showFindings(connection, (finding, number) => this.look(finding, number));
    showLegend(connection);
    showParts(connection);
    showLatency(connection);
    let shown = side;
    if (side === null) {
      let responder = 0;
      for (let i = 0; i < connection.length; i++) responder += KINDS[connection.kind[i]].radius > 0 && connection.side[i] === 1 ? 1 : -1;
      shown = responder > 0 ? 1 : 0;
    }
    d3.select("#side").property("value", shown);
    this.graph.show(connection, shown);
  }
}
