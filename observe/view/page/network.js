// The network of a simulated trace: a table of its ports, the graph of one of them, and the paths of the QPs. Every text of the trace
// becomes a text node, never markup.
"use strict";

/** As PortKind of network_log.h, in its order. */
const PORT_KIND = {QUEUE: 0, MARKED: 1, DROPPED: 2, PAUSED: 3, RESUMED: 4, STOPS: 5, LETS_GO: 6, WAIT_BEGAN: 7, WAIT_ENDED: 8};
const PORT_COLOURS = {queue: "#3574b5", peak: "#b9d0ea", marked: "#e08a00", dropped: "#c0182b", paused: "rgba(96, 125, 139, 0.35)",
  waits: "rgba(184, 51, 106, 0.25)", stops: "#37474f"};
/** What lasts: the kind that begins it, the one that ends it, and what it is called. */
const PORT_SPANS = [
  {begin: PORT_KIND.PAUSED, end: PORT_KIND.RESUMED, name: "paused", colour: PORT_COLOURS.paused},
  {begin: PORT_KIND.WAIT_BEGAN, end: PORT_KIND.WAIT_ENDED, name: "no credit", colour: PORT_COLOURS.waits},
  {begin: PORT_KIND.STOPS, end: PORT_KIND.LETS_GO, name: "stops the other end", colour: PORT_COLOURS.stops},
];
/** A peak lies in the time before its event, and no longer before (NetworkTrace::kQueueInterval). */
const QUEUE_INTERVAL_MS = 0.002;

/** A port of the data. */
class NetworkPort {
  constructor(data, span) {
    Object.assign(this, {name: data.name, isHost: data.is_host, gbit: data.bits_per_s / 1e9, mean: data.mean, most: data.most,
      marks: data.marks, drops: data.drops, flows: data.flows, span});
    this.pausedPart = span > 0 ? data.paused / span : 0;
    this.waitedPart = span > 0 ? data.waited / span : 0;
    this.raw = data;
    this.length = data.kind.length;
    this.findings = [];
  }

  /** The work that only a port that is looked at is worth. */
  prepare() {
    if (this.raw === null) return;
    const raw = this.raw, order = Uint32Array.from(raw.time.keys());
    order.sort((a, b) => raw.time[a] - raw.time[b] || a - b);
    this.placeOf = new Uint32Array(order.length);
    order.forEach((from, place) => { this.placeOf[from] = place; });
    this.time = Float64Array.from(order, place => raw.time[place]);
    this.kind = Uint8Array.from(order, place => raw.kind[place]);
    this.value = Float64Array.from(order, place => raw.value[place]);
    this.peak = Float64Array.from(order, place => raw.peak[place]);
    this.raw = null;
    this.spans = PORT_SPANS.map(kind => this.spansOf(kind));
  }

  /** From each begin to its end, or to the end of the trace; in the order of begins. */
  spansOf({begin, end}) {
    const open = new Map(), from = [], to = [], level = [];
    for (let i = 0; i < this.length; i++) {
      const value = this.value[i];
      if (this.kind[i] === begin && !open.has(value)) {
        open.set(value, from.length);
        from.push(this.time[i]);
        to.push(Math.max(this.span, this.time[i]));
        level.push(value);
      } else if (this.kind[i] === end && open.has(value)) {
        to[open.get(value)] = this.time[i];
        open.delete(value);
      }
    }
    // The latest end so far ascends: what is before its place has ended.
    let latest = -Infinity;
    return {from, to, level, ends: to.map(time => latest = Math.max(latest, time))};
  }

  /** What the port is at that time, in a line. */
  describe(time) {
    let place = lowerBound(this.time, time + 1e-9) - 1;
    while (place >= 0 && this.kind[place] !== PORT_KIND.QUEUE) place--;
    const words = [`${time.toFixed(6)} ms`, `${((place < 0 ? 0 : this.value[place]) / 1000).toFixed(1)} KB wait`];
    PORT_SPANS.forEach(({name}, number) => {
      const {from, to, level} = this.spans[number], priorities = [];
      // Eight priorities at most are open at once.
      for (let i = lowerBound(from, time + 1e-9) - 1, looked = 0; i >= 0 && looked < 8; i--, looked++) {
        if (to[i] > time) priorities.push(level[i]);
      }
      if (priorities.length > 0) words.push(name === "no credit" ? name : `${name} (priority ${priorities.join(", ")})`);
    });
    return words.join("  ");
  }
}

/** The graph of a port's queue over time, with what happened to it. */
class PortGraph {
  constructor(changed) {
    this.changed = changed;
    this.plot = new Plot(document.getElementById("queue"));
    this.x = d3.scale.linear();
    this.zoom = d3.behavior.zoom().scaleExtent([0.5, 1e7]).on("zoom", () => this.draw());
    d3.select(this.plot.element).call(this.zoom);
    this.drawing = 0;
    this.statistics = {mostInAFrame: 0, frames: 0, drawn: 0};
  }

  show(port) {
    this.port = port;
    this.mark = null;
    this.showRange(-port.span * 0.02, port.span * 1.02 || 1);
  }

  showEvidence(time) {
    const around = Math.max(this.port.span / 50, 0.005);
    this.mark = time;
    this.showRange(time - around, time + around);
  }

  showRange(from, to) {
    this.x.domain([from, to]);
    this.draw(true);
  }

  draw(isNewRange) {
    const {plot, x, port} = this;
    x.range([MARGIN.left, plot.element.clientWidth - MARGIN.right]);
    if (isNewRange) this.zoom.x(x);
    plot.begin(x, [0, Math.max(1, port.most / 1000 * 1.15)], "KB that wait");
    const [from, to] = x.domain();
    // What is before the range says how long the queue is at its beginning.
    let begin = lowerBound(port.time, from);
    while (begin > 0 && port.kind[begin - 1] !== PORT_KIND.QUEUE) begin--;
    const jobs = [...PORT_SPANS.map((kind, number) => this.spansJob(kind, port.spans[number], from, to)),
      this.queueJob(Math.max(0, begin - 1), lowerBound(port.time, to + 1e-9))];
    const drawing = ++this.drawing;
    this.statistics = {mostInAFrame: this.statistics.mostInAFrame, frames: 0, drawn: 0};
    drawInFrames(jobs, this.statistics, () => drawing === this.drawing, () => {
      plot.end();
      this.changed(this);
    });
  }

  spansJob({colour, begin}, {from, to, ends}, rangeFrom, rangeTo) {
    const {plot, x} = this, {context} = plot, bottom = plot.height - MARGIN.bottom;
    const isBar = begin === PORT_KIND.STOPS;
    return job(lowerBound(ends, rangeFrom), lowerBound(from, rangeTo), place => {
      const px = x(from[place]), width = Math.max(0.5, x(to[place]) - px);
      if (width < 1 && !plot.isFree(begin, px, 0)) return;
      context.fillStyle = colour;
      if (isBar) context.fillRect(px, bottom - 4, width, 4);
      else context.fillRect(px, MARGIN.top, width, bottom - MARGIN.top);
    });
  }

  queueJob(begin, end) {
    const {port, plot, x} = this, {context, y} = plot, bottom = plot.height - MARGIN.bottom;
    let at = null;
    const queue = place => {
      const time = port.time[place], px = x(time), py = y(port.value[place] / 1000), peak = y(port.peak[place] / 1000);
      if (peak < py - 0.5 || (at !== null && peak < at[1] - 0.5)) {
        const since = Math.max(at === null ? -Infinity : at[0], x(time - QUEUE_INTERVAL_MS));
        context.fillStyle = PORT_COLOURS.peak;
        context.fillRect(since, peak, Math.max(0.5, px - since), 1.5);
      }
      if (at === null || plot.isFree(PORT_KIND.QUEUE, px, py)) {
        context.strokeStyle = PORT_COLOURS.queue;
        if (at !== null) {
          plot.line(at[0], at[1], px, at[1]);
          plot.line(px, at[1], px, py);
        }
        at = [px, py];
      }
    };
    return job(begin, end, place => {
      const kind = port.kind[place], px = x(port.time[place]);
      if (kind === PORT_KIND.QUEUE) {
        queue(place);
      } else if ((kind === PORT_KIND.MARKED || kind === PORT_KIND.DROPPED) && plot.isFree(kind, px, 0)) {
        context.fillStyle = kind === PORT_KIND.MARKED ? PORT_COLOURS.marked : PORT_COLOURS.dropped;
        const top = kind === PORT_KIND.MARKED ? MARGIN.top + 14 : MARGIN.top + 26;
        context.fillRect(px - 1, top, 2, 10);
      }
    }, () => {
      context.strokeStyle = PORT_COLOURS.queue;
      if (at !== null) plot.line(at[0], at[1], x.range()[1], at[1]);
      if (this.mark === null) return;
      context.strokeStyle = PORT_COLOURS.dropped;
      context.setLineDash([4, 3]);
      plot.line(x(this.mark), MARGIN.top, x(this.mark), bottom);
      context.setLineDash([]);
    });
  }
}

/** The part of the page that shows `network` of the data. */
class NetworkView {
  constructor(network) {
    this.ports = network.ports.map(port => new NetworkPort(port, network.span));
    this.paths = network.paths;
    this.findings = network.findings;
    this.findings.forEach((finding, number) => {
      finding.port = network.ports_of_findings[number];
      this.ports[finding.port].findings.push(finding);
    });
    d3.select("#network").attr("hidden", null);
    const status = document.documentElement.dataset;
    this.graph = new PortGraph(drawn => {
      status.networkDrawn = drawn.statistics.drawn;
      status.networkFrames = drawn.statistics.frames;
      status.networkMostInAFrame = drawn.statistics.mostInAFrame;
      [status.networkFrom, status.networkTo] = drawn.x.domain();
      status.networkReady = Number(status.networkReady || 0) + 1;
    });
    this.showFindings();
    this.showPorts();
    this.showPaths();
    this.showLegend();
    const view = this;
    d3.select("#queue").on("mousemove", function () {
      d3.select("#at").text(view.chosen.describe(view.graph.x.invert(d3.mouse(this)[0])));
    });
    window.addEventListener("resize", () => this.graph.draw(true));
    // What has most to say, or else the longest queue.
    const fullest = this.ports.reduce((best, port, index) => port.most > this.ports[best].most ? index : best, 0);
    this.choose(this.findings.length > 0 ? this.findings[0].port : fullest);
  }

  choose(index) {
    this.chosen = this.ports[index];
    this.chosen.prepare();
    d3.select("#port").text(this.chosen.name);
    d3.selectAll("#ports tbody tr").classed("chosen", row => row === index);
    d3.selectAll("#paths tbody tr").classed("chosen", row => row.ports.includes(index));
    this.graph.show(this.chosen);
  }

  look(finding, number) {
    this.choose(finding.port);
    const time = this.chosen.time[this.chosen.placeOf[finding.evidence[number]]];
    this.graph.showEvidence(time);
    d3.select("#at").text(this.chosen.describe(time));
  }

  showFindings() {
    const list = d3.select("#network-findings");
    if (this.findings.length === 0) list.append("li").text("Nothing unusual is seen in the network.");
    this.findings.forEach(finding => {
      const item = list.append("li").attr("class", finding.severity).attr("data-finding", finding.id)
        .attr("data-port", this.ports[finding.port].name);
      item.append("span").text(finding.sentence);
      let next = 0;
      item.append("button").text("show").on("click", () => {
        this.look(finding, next);
        next = (next + 1) % finding.evidence.length;
      });
    });
  }

  showPorts() {
    const titles = ["port", "Gbit/s", "queue, KB in the mean", "at most", "marks", "drops", "paused", "no credit", "flows",
      "what is wrong"];
    const percent = part => part > 0 ? `${(part * 100).toFixed(1)} %` : "0";
    // Worst first; ports at which nothing happened last.
    const rank = new Map();
    this.findings.forEach((finding, number) => { if (!rank.has(finding.port)) rank.set(finding.port, number); });
    const weight = index => rank.has(index) ? rank.get(index) : this.findings.length + (this.ports[index].length > 0 ? 0 : 1);
    const rows = d3.range(this.ports.length).sort((a, b) => weight(a) - weight(b) || this.ports[b].most - this.ports[a].most || a - b);
    const table = d3.select("#ports");
    table.append("thead").append("tr").selectAll("th").data(titles).enter().append("th").text(title => title);
    table.append("tbody").selectAll("tr").data(rows).enter().append("tr").on("click", index => { location.hash = `#port/${index}`; })
      .selectAll("td").data(index => {
        const port = this.ports[index];
        return [port.name, port.gbit, (port.mean / 1000).toFixed(1), (port.most / 1000).toFixed(1), port.marks, port.drops,
          percent(port.pausedPart), percent(port.waitedPart), port.flows, port.findings.map(finding => finding.id).join(", ")];
      }).enter().append("td").text(text => text);
  }

  /** A row for each sequence of ports, payload first. */
  showPaths() {
    const rows = new Map();
    for (const path of this.paths) {
      const key = `${path.payload} ${path.ports}`;
      if (!rows.has(key)) rows.set(key, {payload: path.payload, ports: path.ports, paths: []});
      rows.get(key).paths.push(path);
    }
    const sorted = Array.from(rows.values()).sort((a, b) => Number(b.payload) - Number(a.payload));
    const table = d3.select("#paths");
    table.append("thead").append("tr").selectAll("th").data(["ports", "what", "flows"]).enter().append("th").text(title => title);
    const made = table.append("tbody").selectAll("tr").data(sorted).enter().append("tr");
    made.append("td").selectAll("a").data(row => row.ports).enter().append("a").attr("href", port => `#port/${port}`)
      .text(port => this.ports[port].name);
    made.append("td").text(row => row.payload ? "payload" : "answers");
    made.append("td").selectAll("a").data(row => row.paths).enter().append("a")
      .attr("href", path => path.connection >= 0 ? `#${path.connection}` : null)
      .text(path => path.flow === "" ? path.qp : `${path.flow} (${path.qp})`);
  }

  showLegend() {
    const parts = [["queue", PORT_COLOURS.queue], ["its peaks", PORT_COLOURS.peak], ["marks", PORT_COLOURS.marked],
      ["drops", PORT_COLOURS.dropped], ...PORT_SPANS.map(({name, colour}) => [name, colour])];
    const items = d3.select("#port-legend").selectAll("span").data(parts).enter().append("span");
    items.append("i").style("background", ([, colour]) => colour);
    items.append("b").text(([name]) => name);
  }

  /** "port/3/queue_builds_up" of the address: returns whether it is one of a port. */
  follow(words) {
    if (words[0] !== "port") return false;
    const index = Number(words[1]);
    if (!Number.isInteger(index) || index < 0 || index >= this.ports.length) return true;
    const finding = this.ports[index].findings.find(one => one.id === words[2]);
    if (finding) this.look(finding, 0);
    else this.choose(index);
    return true;
  }
}
