// The daemon's page: asks for /metrics each second, and shows what it says and what changed. Every text becomes a text node.
"use strict";

(function () {
  const PERIOD_MS = 1000;
  const PATIENCE_MS = 5000;
  const MOST_TROUBLES = 50;
  const VALUE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
  const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;
  /** Counters that are no trouble when they grow are not here; of the drops all are. */
  const TROUBLES = new Map([["retrans_pkts", "retransmissions"], ["out_of_buffer", "requests that found no receive"],
    ["rnr_nak_retry_err", "RNR NAKs received"], ["local_ack_timeout_err", "timeouts"], ["packet_seq_err", "NAKs for a gap received"],
    ["duplicate_request", "duplicate requests"], ["out_of_sequence", "packets out of order"],
    ["rx_icrc_encapsulated", "packets with a wrong ICRC"], ["req_remote_access_errors", "access errors of the peer"],
    ["resp_remote_access_errors", "access errors here"], ["req_remote_invalid_request", "requests that the peer calls invalid"],
    ["req_transport_retries_exceeded", "QPs out of retries"], ["req_rnr_retries_exceeded", "QPs out of RNR retries"],
    ["np_ecn_marked_roce_packets", "packets with marks of congestion"], ["rp_cnp_handled", "CNPs received"],
    ["cq_overrun", "overruns of CQs"], ["rx_missed", "frames lost before the RNIC"]]);

  /** Prometheus' text as a list of {name, labels, value}. */
  function parse(text) {
    const samples = [];
    for (const line of text.split("\n")) {
      const found = VALUE.exec(line);
      if (!found) continue;
      const labels = {};
      for (const [, name, value] of (found[2] || "").matchAll(LABEL)) labels[name] = value.replace(/\\(.)/g, "$1");
      samples.push({name: found[1], labels, value: Number(found[3])});
    }
    return samples;
  }

  /** What a page of metrics says, by RNIC: counters are summed over workers. */
  function read(text) {
    const seen = {version: "", uptime: 0, clients: 0, devices: new Map(), ports: new Map(), paths: new Map(), portsLeftOut: 0, qps: new Map(), leftOut: 0};
    const key = labels => `${labels.device}/${labels.qpn}`;
    for (const {name, labels, value} of parse(text)) {
      if (name === "urnic_build_info") seen.version = labels.version;
      else if (name === "urnic_uptime_seconds") seen.uptime = value;
      else if (name === "urnic_clients") seen.clients = value;
      else if (name === "urnic_qps_without_series") seen.leftOut = value;
      else if (name === "urnic_qp_info") seen.qps.set(key(labels), {...labels});
      else if (name === "urnic_qp_rate_bits_per_second") Object.assign(seen.qps.get(key(labels)) || {}, {rate: value});
      else if (name === "urnic_qp_cnps_total") Object.assign(seen.qps.get(key(labels)) || {}, {cnps: value});
      else if (name === "urnic_qp_path") {
        const path = `${labels.fabric}: ${labels.ports}`;
        if (!seen.paths.has(path)) seen.paths.set(path, []);
        seen.paths.get(path).push(labels);
      } else if (name === "urnic_network_ports_without_series") seen.portsLeftOut = value;
      else if (labels.fabric !== undefined && labels.port !== undefined) {
        const port = `${labels.fabric}/${labels.port}`;
        if (!seen.ports.has(port)) seen.ports.set(port, new Map());
        seen.ports.get(port).set(name.replace(/^urnic_network_port_/, "").replace(/_total$/, ""), value);
      } else if (labels.device !== undefined) {
        if (!seen.devices.has(labels.device)) seen.devices.set(labels.device, new Map());
        const counters = seen.devices.get(labels.device), counter = name.replace(/^urnic_/, "").replace(/_total$/, "");
        counters.set(counter, (counters.get(counter) || 0) + value);
      }
    }
    return seen;
  }

  const element = id => document.getElementById(id);

  /** A cell is a text, or an element. */
  function fill(table, titles, rows) {
    const row = (cell, contents) => {
      const made = document.createElement("tr");
      for (const content of contents) made.appendChild(document.createElement(cell)).append(content ?? "");
      return made;
    };
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.appendChild(row("th", titles));
    for (const texts of rows) body.appendChild(row("td", texts));
    table.replaceChildren(head, body);
  }

  const rounded = new Intl.NumberFormat("en", {maximumFractionDigits: 1});
  let first = null, last = null;

  function show(seen) {
    const seconds = last === null ? 0 : seen.uptime - last.uptime;
    const rateOf = kind => (name, counter) => {
      const before = last && last[kind].get(name);
      if (!before || seconds <= 0) return 0;
      return Math.max(0, (seen[kind].get(name).get(counter) || 0) - (before.get(counter) || 0)) / seconds;
    };
    const rate = rateOf("devices");
    element("version").textContent = seen.version;
    element("state").textContent = `up for ${rounded.format(seen.uptime)} s, ${seen.clients} programs have RNICs open`;
    fill(element("rnics"), ["RNIC", "port", "QPs", "MRs", "sends Mbit/s", "receives Mbit/s", "sends packets/s", "receives packets/s",
      "sent again/s"],
      Array.from(seen.devices, ([device, counters]) => [device, counters.get("port_up") === 1 ? "ACTIVE" : "DOWN", counters.get("qps"),
        counters.get("mrs"), ...[["sent_bytes", 8e-6], ["rcvd_bytes", 8e-6], ["sent_pkts", 1], ["rcvd_pkts", 1], ["retrans_pkts", 1]]
          .map(([counter, factor]) => rounded.format(rate(device, counter) * factor))]));
    showNetworks(seen, rateOf("ports"));
    element("qps_left_out").textContent = seen.qps.size === 0 && seen.leftOut === 0
      ? "None, or [daemon] http_qps is not set." : seen.leftOut > 0 ? `${seen.leftOut} more are not shown (http_qps).` : "";
    fill(element("qps"), ["QP", "state", "peer's QP", "program", "rate Mbit/s", "CNPs"], Array.from(seen.qps, ([name, qp]) =>
      [qpLink(name, qp), qp.state, qp.peer_qpn, qp.program, qp.rate === undefined ? "" : rounded.format(qp.rate * 1e-6), qp.cnps ?? ""]));
    showTroubles(seen, rate);
    last = seen;
  }

  /** To the page of the QP. */
  function qpLink(name, qp) {
    const link = document.createElement("a");
    link.href = `qp/${encodeURIComponent(qp.device)}/${encodeURIComponent(qp.qpn)}`;
    link.textContent = name;
    return link;
  }

  /** Each port of each switch; Ethernet drops, marks and pauses, InfiniBand waits for credits. */
  function showNetworks(seen, rate) {
    element("network").hidden = seen.ports.size === 0;
    element("ports_left_out").textContent = seen.portsLeftOut > 0 ? `${seen.portsLeftOut} ports more are not shown.` : "";
    const each = (counters, counter, shown) => counters.has(counter) ? shown(counter) : "";
    fill(element("ports"), ["switch port to", "Mbit/s", "packets/s", "queue KB", "most KB", "dropped", "marked", "pauses/s", "waits for credits %"],
      Array.from(seen.ports, ([name, counters]) => {
        const total = counter => rounded.format(counters.get(counter));
        return [name, rounded.format(rate(name, "bytes") * 8e-6), rounded.format(rate(name, "packets")),
          rounded.format(counters.get("queue_bytes") / 1000), rounded.format(counters.get("most_queue_bytes") / 1000),
          each(counters, "dropped", total), each(counters, "marked", total),
          each(counters, "pauses_received", () => rounded.format(rate(name, "pauses_sent") + rate(name, "pauses_received"))),
          each(counters, "xmit_wait_nanoseconds", counter => rounded.format(rate(name, counter) * 1e-7))];
      }));
    showPaths(seen);
  }

  /** The ports of switches that packets pass, and the QPs that send them there. */
  function showPaths(seen) {
    element("paths_title").hidden = seen.paths.size === 0;
    fill(element("paths"), ["ports, in order", "QPs"], Array.from(seen.paths, ([path, qps]) => {
      const links = document.createElement("span");
      for (const qp of qps) links.append(links.childNodes.length === 0 ? "" : ", ", qpLink(`${qp.device}/${qp.qpn}`, qp));
      return [path, links];
    }));
  }

  /** Counters that have grown since the page was opened; what grows now is red. */
  function showTroubles(seen, rate) {
    const troubles = [];
    for (const [device, counters] of seen.devices) {
      const before = first.devices.get(device) || new Map();
      for (const [counter, value] of counters) {
        const words = TROUBLES.get(counter) || (counter.startsWith("drop_") ? `packets dropped (${counter})` : "");
        const grown = value - (before.get(counter) || 0);
        if (words === "" || grown <= 0) continue;
        const now = rate(device, counter);
        troubles.push({isNow: now > 0, text: `${device}: ${grown} ${words} since this page was opened, ${rounded.format(now)} a second now`});
      }
    }
    const list = element("troubles");
    list.replaceChildren();
    for (const trouble of troubles.slice(0, MOST_TROUBLES)) {
      const item = list.appendChild(document.createElement("li"));
      item.textContent = trouble.text;
      item.className = trouble.isNow ? "now" : "";
    }
    if (troubles.length === 0) list.appendChild(document.createElement("li")).textContent = "Nothing since this page was opened.";
  }

  async function ask() {
    try {
      const answer = await fetch("metrics", {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
      if (!answer.ok) throw new Error(`the daemon answers ${answer.status}`);
      const seen = read(await answer.text());
      // A daemon that was started anew begins with zero.
      if (first === null || seen.uptime < last.uptime) first = last = seen;
      // The daemon makes its text once a second; the same one says nothing new.
      if (last === seen || seen.uptime > last.uptime) show(seen);
      document.body.className = "";
      document.documentElement.dataset.ready = Number(document.documentElement.dataset.ready || 0) + 1;
    } catch (error) {
      element("state").textContent = `no answer: ${error.message}`;
      document.body.className = "stale";
    }
    setTimeout(ask, PERIOD_MS);
  }

  ask();
}());
