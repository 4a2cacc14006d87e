"use strict";
/* The picture of a name: cytoscape draws what the page's data says, and fetches more where a name is clicked. */
(() => {
  const box = document.getElementById("network");
  const statusLine = document.getElementById("status");
  const first = JSON.parse(document.getElementById("network-data").textContent);
  const most = Number(box.dataset.most);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const value = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const maxLabelWidth = () => Math.min(120, box.clientWidth / 4);
  const label = (text) => (text.length > 32 ? `${text.slice(0, 31)}…` : text);
  // Names and keys of documents may be anything, so identifiers say which they are.
  const nameId = (name) => `n:${name}`;
  const documentId = (key) => `d:${key}`;

  const style = () => {
    const text = {
      "font-family": getComputedStyle(document.body).fontFamily, "font-size": 12, color: value("--ink"),
      "text-outline-color": value("--surface"), "text-outline-width": 2.5, "text-outline-opacity": 0.92,
    };
    return [
      { selector: "node", style: { ...text, label: "data(label)", width: 13, height: 13, "background-color": value("--hue-1"),
        "text-valign": "bottom", "text-margin-y": 4, "text-max-width": maxLabelWidth(), "text-wrap": "ellipsis", "overlay-padding": 5 } },
      { selector: "node.open", style: { width: 18, height: 18, "font-weight": 600 } },
      { selector: "node.middle", style: { width: 26, height: 26, "font-size": 14, "font-weight": 600, "background-color": value("--accent") } },
      { selector: "node.document", style: { shape: "round-rectangle", width: 11, height: 11, "background-color": value("--hue-5"), "font-size": 10.5, color: value("--quiet") } },
      { selector: "edge", style: { width: "mapData(score, 0, 1, 1, 3)", "line-color": value("--faint"), "curve-style": "straight", "line-style": "dashed", "line-dash-pattern": [5, 4], opacity: 0.62 } },
      { selector: "edge.solid", style: { width: 2, "line-style": "solid", "line-color": value("--hue-1"), opacity: 0.95, "target-arrow-shape": "triangle", "target-arrow-color": value("--hue-1"), "arrow-scale": 0.8, "curve-style": "bezier" } },
      { selector: "edge.document", style: { width: 1, "line-style": "dotted", opacity: 0.55 } },
      { selector: "node.pinned", style: { "border-width": 2, "border-color": value("--ink") } },
      { selector: ".hidden", style: { display: "none" } },
      { selector: ".unlabeled", style: { "text-opacity": 0 } },
      { selector: "node[order]", style: { "z-index": "data(order)" } },
      { selector: ".hovered", style: { "text-opacity": 1, "z-index": 1000 } },
      { selector: ".far", style: { opacity: 0.16 } },
      { selector: "node:active", style: { "overlay-color": value("--accent"), "overlay-opacity": 0.15 } },
    ];
  };

  const graph = cytoscape({
    container: box, style: style(), minZoom: 0.2, maxZoom: 4, boxSelectionEnabled: false, autounselectify: true,
  });
  box.querySelectorAll("canvas").forEach((canvas) => canvas.setAttribute("aria-hidden", "true"));
  const names = () => graph.nodes(".name").length;

  const addName = (name, near) => {
    const id = nameId(name);
    if (graph.getElementById(id).nonempty()) return;
    if (names() >= most) return;
    const angle = 2.4 * names(), away = 60 + 3 * names(); // by the golden angle, so that the layout begins untangled
    const from = near?.position() ?? { x: 0, y: 0 };
    graph.add({ group: "nodes", classes: "name", data: { id, name, label: label(name) },
      position: { x: from.x + away * Math.cos(angle), y: from.y + away * Math.sin(angle) } });
  };
  const addJoin = (join) => {
    const source = nameId(join.source), target = nameId(join.target);
    if (graph.getElementById(source).empty() || graph.getElementById(target).empty()) return;
    const known = graph.getElementById(`${source}>${target}`), back = graph.getElementById(`${target}>${source}`);
    if (known.nonempty() || (back.nonempty() && (back.hasClass("solid") || !join.solid))) {
      if (!join.solid || known.hasClass("solid")) return;
    }
    known.remove();
    if (!back.hasClass("solid")) back.remove();
    graph.add({ group: "edges", classes: join.solid ? "solid" : "", data: { id: `${source}>${target}`, source, target,
      score: Math.min(1, join.score), kind: join.solid ? "trees" : join.links?.length ? "links" : "passages" } });
  };
  const addDocument = (place, of) => {
    const id = documentId(place.document);
    if (graph.getElementById(id).empty())
      graph.add({ group: "nodes", classes: "document", data: { id, key: place.document, label: label((place.title || place.document).replace(/[*_`]/g, "")) },
        position: { x: of.position("x") + 40, y: of.position("y") - 60 } });
    const edge = `${of.id()}>${id}`;
    if (graph.getElementById(edge).empty())
      graph.add({ group: "edges", classes: "document", data: { id: edge, source: of.id(), target: id, score: 0, kind: "documents" } });
  };

  const take = (data) => {
    const middle = graph.getElementById(nameId(data.name));
    graph.batch(() => {
      for (const one of data.neighbours) addName(one.name, middle);
      for (const one of data.names ?? []) addName(one.name, middle);
      for (const join of data.joins) addJoin(join);
      for (const place of data.places ?? []) addDocument(place, middle);
      middle.addClass("open");
    });
  };
  // Labels that would cover that of a more important node are drawn only while the pointer is on their node.
  const pen = document.createElement("canvas").getContext("2d");
  const showLabels = () => {
    const family = getComputedStyle(document.body).fontFamily;
    const rank = (node) => (node.hasClass("middle") ? 0 : node.hasClass("open") ? 1 : node.hasClass("document") ? 3 : 2);
    const nodes = graph.nodes().not(".hidden").sort((one, other) => rank(one) - rank(other) || other.degree() - one.degree());
    const boxes = nodes.map((node) => {
      const size = node.hasClass("middle") ? 14 : node.hasClass("document") ? 10.5 : 12;
      pen.font = `${rank(node) < 2 ? 600 : 400} ${size}px ${family}`;
      const place = { ...node.position(), radius: node.height() / 2, size, label: node.data("label") };
      return findLabelBox(place, maxLabelWidth(), (text) => pen.measureText(text).width);
    });
    const drawn = selectLabels(boxes, nodes.map((node) => {
      const { x, y } = node.position(), radius = node.height() / 2;
      return { x1: x - radius, x2: x + radius, y1: y - radius, y2: y + radius };
    }));
    // The more important a node is, the later it is drawn, so that no other node covers its label.
    graph.batch(() => nodes.forEach((node, index) => {
      node.toggleClass("unlabeled", !drawn[index]);
      node.data("order", nodes.length - index);
    }));
    box.dataset.labels = String(drawn.filter(Boolean).length);
  };
  const arrange = (fit) => {
    graph.nodes(".pinned").lock();
    graph.layout({ name: "cose", animate: false, randomize: false, fit: false, nodeDimensionsIncludeLabels: true, nodeRepulsion: () => 9000,
      idealEdgeLength: () => 85, edgeElasticity: () => 90, gravity: 0.35, numIter: graph.nodes().length > 80 ? 500 : 900, padding: 30 }).run();
    graph.nodes().unlock();
    // Stretched to fill the box at scale one, so that labels have the size of the page's text.
    const { x1, y1, w, h } = graph.nodes().boundingBox({ includeLabels: false });
    const wide = box.clientWidth - 130, high = box.clientHeight - 70;
    const places = graph.nodes().not(".pinned").map((node) => {
      const { x, y } = node.position();
      return [node, { x: 65 + (w ? (x - x1) / w : 0.5) * wide, y: 25 + (h ? (y - y1) / h : 0.5) * high }];
    });
    if (!graph.nodes(".pinned").length) graph.viewport({ zoom: 1, pan: { x: 0, y: 0 } });
    for (const [node, position] of places) {
      if (fit || still) node.position(position);
      else node.animate({ position }, { duration: 250 });
    }
    if (still) showLabels();
    else if (!fit) setTimeout(showLabels, 300);
  };
  const tell = () => {
    const full = names() >= most ? ` The picture has its maximum of ${most} names.` : "";
    statusLine.textContent = `${names()} name${names() === 1 ? "" : "s"}. Click a name to add its neighbors; click it again to open its page.${full}`;
    box.dataset.names = String(names());
    box.dataset.joins = String(graph.edges().length);
  };

  // Controls: which lines are drawn, from which weight on, and names that stay where they were dragged.
  const kinds = [...document.querySelectorAll("[data-kind]")], least = document.getElementById("least");
  const filter = () => {
    const chosen = new Set(kinds.filter((box) => box.checked).map((box) => box.dataset.kind));
    graph.batch(() => {
      for (const edge of graph.edges()) {
        const { kind, score } = edge.data();
        const isWeighed = kind === "links" || kind === "passages";
        edge.toggleClass("hidden", !chosen.has(kind) || (isWeighed && score < Number(least.value)));
      }
      for (const node of graph.nodes().not(".middle"))
        node.toggleClass("hidden", node.connectedEdges().not(".hidden").empty());
    });
    showLabels();
    box.dataset.shown = String(graph.nodes().not(".hidden").length);
  };
  for (const input of [...kinds, least]) input.addEventListener("input", filter);
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;
  document.getElementById("depth").addEventListener("change", (event) => event.target.form.submit());
  graph.on("dragfree", "node", (event) => { event.target.addClass("pinned"); showLabels(); });
  document.getElementById("release").addEventListener("click", () => { graph.nodes().removeClass("pinned"); arrange(false); });

  const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  const save = (suffix, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = `${first.name.replace(/[^\p{L}\p{N} .-]/gu, "_").slice(0, 80)}.${suffix}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const visible = () => [graph.nodes().not(".hidden"), graph.edges().not(".hidden")];
  document.getElementById("save-svg").addEventListener("click", () => {
    const [nodes, edges] = visible(), { x1, y1, w, h } = nodes.boundingBox();
    const number = (value) => value.toFixed(1);
    const lines = edges.map((edge) => {
      const from = edge.source().position(), center = edge.target().position(), isSolid = edge.hasClass("solid");
      // An arrow ends at the rim of its node.
      const share = isSolid ? 1 - (edge.target().width() / 2 + 2) / Math.max(1, Math.hypot(center.x - from.x, center.y - from.y)) : 1;
      const to = { x: from.x + share * (center.x - from.x), y: from.y + share * (center.y - from.y) };
      const dash = isSolid ? ' marker-end="url(#arrow)"' : ' stroke-dasharray="5 4"';
      return `<line x1="${number(from.x)}" y1="${number(from.y)}" x2="${number(to.x)}" y2="${number(to.y)}" stroke="${value(isSolid ? "--hue-1" : "--faint")}" stroke-width="${isSolid ? 2 : 1.2}"${dash}/>`;
    });
    const dots = nodes.map((node) => {
      const { x, y } = node.position(), radius = node.width() / 2;
      const fill = value(node.hasClass("document") ? "--hue-5" : node.hasClass("middle") ? "--accent" : "--hue-1");
      const shape = node.hasClass("document") ? `<rect x="${number(x - radius)}" y="${number(y - radius)}" width="${number(2 * radius)}" height="${number(2 * radius)}" rx="2" fill="${fill}"/>` : `<circle cx="${number(x)}" cy="${number(y)}" r="${number(radius)}" fill="${fill}"/>`;
      return `${shape}<text x="${number(x)}" y="${number(y + radius + 14)}">${escaped(node.data("label"))}</text>`;
    });
    save("svg", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${[x1 - 20, y1 - 20, w + 40, h + 40].map(number).join(" ")}" width="${number(w + 40)}" height="${number(h + 40)}" font-family="sans-serif" font-size="12" text-anchor="middle" fill="${value("--ink")}"><rect x="${number(x1 - 20)}" y="${number(y1 - 20)}" width="100%" height="100%" fill="${value("--surface")}"/><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0 8 4 0 8Z" fill="${value("--hue-1")}"/></marker>${lines.join("")}${dots.join("")}</svg>\n`);
  });
  document.getElementById("save-graphml").addEventListener("click", () => {
    const [nodes, edges] = visible();
    const keys = ["node label string", "node kind string", "edge kind string", "edge weight double"].map((key) => {
      const [kind, name, type] = key.split(" ");
      return `<key id="${kind}-${name}" for="${kind}" attr.name="${name}" attr.type="${type}"/>`;
    });
    const points = nodes.map((node) => `<node id="${escaped(node.id())}"><data key="node-label">${escaped(node.data("name") ?? node.data("key"))}</data><data key="node-kind">${node.hasClass("document") ? "document" : "name"}</data></node>`);
    const lines = edges.map((edge) => `<edge source="${escaped(edge.data("source"))}" target="${escaped(edge.data("target"))}"><data key="edge-kind">${edge.data("kind")}</data><data key="edge-weight">${edge.data("score")}</data></edge>`);
    save("graphml", "application/graphml+xml", `<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">${keys.join("")}<graph edgedefault="directed">${points.join("\n")}\n${lines.join("\n")}</graph></graphml>\n`);
  });

  addName(first.name, null);
  graph.getElementById(nameId(first.name)).addClass("middle");
  take(first);
  arrange(true);
  filter();
  tell();

  const pathOf = (base, name, suffix) => {
    const steps = name.split("/");
    if (["", ".", ".."].includes(name)) return `${base}${suffix}?name=${encodeURIComponent(name)}`;
    const plain = steps.some((step) => ["", ".", ".."].includes(step));
    return base + (plain ? encodeURIComponent(name) : steps.map(encodeURIComponent).join("/")) + suffix;
  };
  graph.on("tap", "node.name", async (event) => {
    const node = event.target, name = node.data("name");
    if (node.hasClass("open")) {
      if (!node.hasClass("middle")) location.href = pathOf("/entity/", name, "");
      return;
    }
    node.addClass("open");
    const answer = await fetch(`${pathOf("/entity/", name, "")}?limit=12`, { headers: { accept: "application/json" } });
    if (!answer.ok) { statusLine.textContent = (await answer.json()).error; return; }
    const data = await answer.json();
    // The page may know it by another name: the entity of which it is an alias.
    take({ ...data, name, places: [], joins: data.joins.map((join) => ({ ...join,
      source: join.source === data.name ? name : join.source, target: join.target === data.name ? name : join.target })) });
    arrange(false);
    filter();
    tell();
  });
  graph.on("tap", "node.document", (event) => { location.href = pathOf("/doc/", event.target.data("key"), ""); });
  graph.on("mouseover", "node", (event) => {
    box.classList.add("on-point");
    event.target.addClass("hovered");
    const lines = event.target.connectedEdges().not(".hidden");
    graph.elements().difference(event.target.union(lines).union(lines.connectedNodes())).addClass("far");
  });
  graph.on("mouseout", "node", () => { box.classList.remove("on-point"); graph.elements().removeClass("far hovered"); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => graph.style(style()));
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    graph.style(style());
    showLabels();
  }).observe(box);
  window.kvstoreNetwork = graph; // for whoever tries it from the console
})();
