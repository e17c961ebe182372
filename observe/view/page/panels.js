// Tables, sentences and the distribution. Every text of the trace becomes a text node, never markup.
"use strict";

const SEVERITIES = {error: 2, warning: 1, note: 0};

/** The overview: a row for each connection. */
function showOverview(connections, choose) {
  const table = d3.select("#overview");
  const columns = ["QP", "peer", "events", "sent", "sent again", "received", "duplicates", "NAKs", "RNR NAKs", "CNPs", "messages",
    "what is wrong"];
  table.append("thead").append("tr").selectAll("th").data(columns).enter().append("th").text(title => title);
  const rows = table.append("tbody").selectAll("tr").data(connections).enter().append("tr").on("click", (one, index) => choose(index));
  rows.selectAll("td").data(one => {
    const counts = one.counts;
    const received = counts.slice(2, 8).reduce((sum, count) => sum + count, 0) + counts[9] + counts[10];
    const peer = one.peer >= 0 ? connections[one.peer].name : one.peerQpn >= 0 ? `QP 0x${one.peerQpn.toString(16)}` : "";
    const worst = one.findings.filter(finding => finding.severity !== "note");
    return [one.name, peer, one.length, counts[0] + counts[1], counts[1], received, counts[3], counts[13], counts[14],
      counts[15] + counts[16], one.numMessages, worst.length > 0 ? worst[0].sentence : ""];
  }).enter().append("td").text(text => text);
}

function chooseRow(index) {
  d3.selectAll("#overview tbody tr").classed("chosen", (one, row) => row === index);
}

/** The diagnosis. `look(finding, n)` moves the graph to the nth piece of evidence. */
function showFindings(connection, look) {
  const list = d3.select("#findings");
  list.selectAll("li").remove();
  if (connection.findings.length === 0) {
    list.append("li").text("Nothing unusual is seen.");
  }
  connection.findings.forEach(finding => {
    const item = list.append("li").attr("class", finding.severity).attr("data-finding", finding.id);
    item.append("span").text(finding.sentence);
    if (finding.evidence.length === 0) return;
    let next = 0;
    const button = item.append("button").text("show");
    button.on("click", () => {
      list.selectAll("li").classed("chosen", false);
      item.classed("chosen", true);
      look(finding, next);
      next = (next + 1) % finding.evidence.length;
      button.text(finding.evidence.length > 1 ? `show ${next + 1} of ${finding.evidence.length}` : "show");
    });
  });
}

function showLegend(connection) {
  const shown = KINDS.map((kind, number) => ({...kind, number}))
    .filter(kind => connection.counts[kind.number] > 0 && (kind.radius > 0 || LINES.has(kind.number)));
  const items = d3.select("#legend").selectAll("span").data(shown, kind => kind.number);
  items.exit().remove();
  const made = items.enter().append("span");
  made.append("i");
  made.append("b");
  items.select("i").style("background", kind => kind.colour);
  items.select("b").text(kind => `${kind.name} ${connection.counts[kind.number]}`);
  items.order();
}

/** What the bars of messages are. */
function showParts(connection) {
  d3.select("#messages-title").text(connection.hasWqes ? "Messages, from the WQE's take-up to its completion"
    : "Messages, from the first packet to the acknowledgement");
  const items = d3.select("#parts").selectAll("span").data(connection.hasWqes ? [...PARTS, FAILED] : [], part => part.name);
  items.exit().remove();
  const made = items.enter().append("span");
  made.append("i").style("background", part => part.colour);
  made.append("b").text(part => part.name);
}

/** The distribution of durations, with a logarithmic axis. */
function showLatency(connection) {
  const svg = d3.select("#latency");
  svg.selectAll("*").remove();
  const bars = connection.distribution();
  const words = d3.select("#quantiles");
  if (bars.length === 0) {
    words.text(connection.hasWqes ? "No message ended in this trace." : "No message was acknowledged in this trace.");
    return;
  }
  const number = d3.format(",.1f");
  words.text(`${connection.durations.length} messages: ` + [["median", 0.5], ["90 %", 0.9], ["99 %", 0.99], ["longest", 1]]
    .map(([name, part]) => `${name} ${number(connection.quantile(part))} us`).join(", "));
  const width = svg.node().clientWidth, height = Number(svg.attr("height"));
  const x = d3.scale.log().domain([d3.min(bars, bar => bar.from), d3.max(bars, bar => bar.to)]).range([MARGIN.left, width - MARGIN.right]);
  const y = d3.scale.linear().domain([0, d3.max(bars, bar => bar.count)]).range([height - MARGIN.bottom, MARGIN.top]);
  svg.selectAll("rect").data(bars).enter().append("rect")
    .attr("x", bar => x(bar.from)).attr("width", bar => Math.max(1, x(bar.to) - x(bar.from) - 1))
    .attr("y", bar => y(bar.count)).attr("height", bar => height - MARGIN.bottom - y(bar.count));
  svg.append("g").attr("transform", `translate(0,${height - MARGIN.bottom})`)
    .call(d3.svg.axis().scale(x).orient("bottom").ticks(8, ",.1f").tickSize(3));
  svg.append("g").attr("transform", `translate(${MARGIN.left},0)`).call(d3.svg.axis().scale(y).orient("left").ticks(4).tickSize(3));
}
