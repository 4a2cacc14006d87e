"use strict";
/* The map: all points on one plain canvas, drawn at most once a frame; the list beside it says the same in words. */
(() => {
  const box = document.getElementById("map");
  const canvas = box.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const statusLine = document.getElementById("status");
  const card = document.getElementById("point");
  const questionPoint = JSON.parse(document.getElementById("question-point")?.textContent ?? "null");
  const labels = JSON.parse(document.getElementById("labels").textContent);
  const evidence = [...document.querySelectorAll(".ranked li[data-point]")]
    .filter((line) => line.dataset.point !== "")
    .map((line) => ({ point: Number(line.dataset.point), rank: line.dataset.rank, line }));
  const legend = [...document.querySelectorAll(".legend li")];
  let count = 0, xs, ys, groups, order, cells;
  let scale = 1, left = 0, top = 0, only = -1, near = -1, waiting = false;
  const GRID = 256, STEPS = 65535;

  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    const hues = legend.map((line, number) =>
      line.classList.contains("rest") ? value("--faint") : value(`--hue-${Math.min(number + 1, 12)}`));
    return { hues, ink: value("--ink"), accent: value("--accent"), ground: value("--surface"), line: value("--quiet") };
  };

  /* Places of the map to pixels of the page: the shorter side holds it whole, the other is centred. */
  const side = () => Math.min(canvas.clientWidth, canvas.clientHeight) - 36;
  const toX = (x) => (x - 0.5 - left) * side() * scale + canvas.clientWidth / 2;
  const toY = (y) => (0.5 - y + top) * side() * scale + canvas.clientHeight / 2;

  const draw = () => {
    waiting = false;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (!count) return;
    const palette = colours();
    const plain = Math.max(1.4, Math.min(5, 260 / Math.sqrt(count) * Math.sqrt(scale)));
    const unit = side() * scale, dx = width / 2 - (0.5 + left) * unit, dy = height / 2 + (0.5 + top) * unit;
    const kx = unit / STEPS;
    // Group by group, the largest last group first, so that colours change rarely and named groups lie on top.
    for (let place = order.length - 1; place >= 0; place--) {
      const { group, from, to, list } = order[place];
      const rest = legend[group]?.classList.contains("rest");
      const size = rest ? plain : plain * 1.35, round = size >= 2.6;
      pen.fillStyle = palette.hues[group] ?? palette.line;
      pen.globalAlpha = only >= 0 && group !== only ? 0.07 : count > 20000 ? 0.55 : 0.72;
      pen.beginPath();
      for (let index = from; index < to; index++) {
        const point = list[index];
        const x = xs[point] * kx + dx, y = dy - ys[point] * kx;
        if (x < -size || y < -size || x > width + size || y > height + size) continue;
        if (round) { pen.moveTo(x + size / 2, y); pen.arc(x, y, size / 2, 0, 6.2832); }
        else pen.rect(x - size / 2, y - size / 2, size, size);
        if ((index & 4095) === 4095) { pen.fill(); pen.beginPath(); }
      }
      pen.fill();
    }
    pen.globalAlpha = 1;
    // Labels of clusters, the largest first; one that would cover another is omitted until the map is zoomed.
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`;
    pen.lineJoin = "round";
    const taken = [];
    let shown = 0;
    for (const { name, x, y } of labels) {
      const lines = name.split(" · "), wide = Math.max(...lines.map((line) => pen.measureText(line).width)) / 2 + 4;
      const high = 8 * lines.length + 2;
      const cx = Math.max(wide, Math.min(width - wide, toX(x))), cy = toY(y);
      if (cy < -high || cy > height + high || toX(x) < -wide || toX(x) > width + wide) continue;
      if (taken.some((other) => Math.abs(other.cx - cx) < other.wide + wide && Math.abs(other.cy - cy) < other.high + high)) continue;
      taken.push({ cx, cy, wide, high });
      shown++;
      lines.forEach((line, number) => {
        const ly = cy + 16 * (number - (lines.length - 1) / 2);
        pen.strokeStyle = palette.ground;
        pen.lineWidth = 4;
        pen.globalAlpha = 0.85;
        pen.strokeText(line, cx, ly);
        pen.globalAlpha = 1;
        pen.fillStyle = palette.ink;
        pen.fillText(line, cx, ly);
      });
    }
    box.dataset.labels = String(shown);
    const at = (point) => [toX(xs[point] / STEPS), toY(ys[point] / STEPS)];
    if (questionPoint) {
      pen.strokeStyle = palette.line;
      pen.lineWidth = 1;
      for (const { point } of evidence) {
        pen.beginPath();
        pen.moveTo(toX(questionPoint[0]), toY(questionPoint[1]));
        pen.lineTo(...at(point));
        pen.stroke();
      }
    }
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `600 11px ${getComputedStyle(document.body).fontFamily}`;
    for (const { point, rank } of [...evidence].reverse()) {
      const [x, y] = at(point);
      pen.beginPath();
      pen.arc(x, y, 9, 0, 6.2832);
      pen.fillStyle = palette.ground;
      pen.fill();
      pen.strokeStyle = palette.ink;
      pen.lineWidth = 1.5;
      pen.stroke();
      pen.fillStyle = palette.ink;
      pen.fillText(rank, x, y + 0.5);
    }
    if (questionPoint) {
      const x = toX(questionPoint[0]), y = toY(questionPoint[1]);
      pen.beginPath();
      for (let tip = 0; tip < 10; tip++) {
        const radius = tip % 2 ? 5.5 : 13, angle = Math.PI * (tip / 5 - 0.5);
        pen[tip ? "lineTo" : "moveTo"](x + radius * Math.cos(angle), y + radius * Math.sin(angle));
      }
      pen.closePath();
      pen.fillStyle = palette.accent;
      pen.strokeStyle = palette.ground;
      pen.lineWidth = 2;
      pen.stroke();
      pen.fill();
    }
    if (near >= 0) {
      pen.beginPath();
      pen.arc(...at(near), Math.max(plain, 5) + 2, 0, 6.2832);
      pen.strokeStyle = palette.ink;
      pen.lineWidth = 2;
      pen.stroke();
    }
  };
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  /* Points by group, and by cell of a grid, each as one array: counting sort. */
  const arrange = () => {
    const sizes = new Uint32Array(257);
    for (let point = 0; point < count; point++) sizes[groups[point] + 1]++;
    for (let group = 0; group < 256; group++) sizes[group + 1] += sizes[group];
    const list = new Uint32Array(count), next = sizes.slice();
    for (let point = 0; point < count; point++) list[next[groups[point]]++] = point;
    order = [];
    for (let group = 0; group < 256; group++)
      if (sizes[group + 1] > sizes[group]) order.push({ group, from: sizes[group], to: sizes[group + 1], list });
    const bounds = new Uint32Array(GRID * GRID + 1);
    const cell = (point) => (ys[point] >> 8) * GRID + (xs[point] >> 8);
    for (let point = 0; point < count; point++) bounds[cell(point) + 1]++;
    for (let place = 0; place < GRID * GRID; place++) bounds[place + 1] += bounds[place];
    const within = new Uint32Array(count), free = bounds.slice();
    for (let point = 0; point < count; point++) within[free[cell(point)]++] = point;
    cells = { bounds, within };
  };

  const nearest = (x, y) => {
    if (!count) return -1;
    const unit = side() * scale;
    const mapX = ((x - canvas.clientWidth / 2) / unit + 0.5 + left) * STEPS;
    const mapY = (0.5 + top - (y - canvas.clientHeight / 2) / unit) * STEPS;
    const reach = 14 / unit * STEPS;
    let best = -1, least = reach * reach;
    const clamp = (value) => Math.max(0, Math.min(GRID - 1, value >> 8));
    for (let row = clamp(mapY - reach); row <= clamp(mapY + reach); row++)
      for (let column = clamp(mapX - reach); column <= clamp(mapX + reach); column++) {
        const place = row * GRID + column;
        for (let index = cells.bounds[place]; index < cells.bounds[place + 1]; index++) {
          const point = cells.within[index];
          if (only >= 0 && groups[point] !== only) continue;
          const far = (xs[point] - mapX) ** 2 + (ys[point] - mapY) ** 2;
          if (far < least) { least = far; best = point; }
        }
      }
    return best;
  };

  const show = async (point) => {
    near = point;
    redraw();
    const answer = await fetch(`${box.dataset.point}?point=${point}&map=${box.dataset.map}`);
    const found = await answer.json();
    if (near !== point) return;
    const title = document.createElement("h2");
    const link = document.createElement("a");
    const text = document.createElement("p");
    link.textContent = answer.ok ? found.title : "Not available";
    if (answer.ok) link.href = found.url;
    title.append(link);
    text.className = "excerpt";
    text.dir = "auto";
    text.textContent = answer.ok ? found.text : found.error;
    const parts = [title];
    const titles = (found.heading ?? "").split(" > ").filter((one, index) => one && (index || one !== found.title));
    if (titles.length) {
      const heading = document.createElement("p");
      heading.className = "quiet";
      heading.dir = "auto";
      heading.textContent = titles.join(" › ");
      parts.push(heading);
    }
    card.replaceChildren(...parts, text);
    card.hidden = false;
  };

  const zoom = (by, x, y) => {
    const unit = side() * scale;
    const px = (x - canvas.clientWidth / 2) / unit, py = (y - canvas.clientHeight / 2) / unit;
    const after = Math.max(1, Math.min(200, scale * by)), share = scale / after;
    left += px * (1 - share);
    top -= py * (1 - share);
    scale = after;
    if (scale === 1) left = top = 0;
    redraw();
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, y: event.offsetY, moved: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const dx = event.offsetX - held.x, dy = event.offsetY - held.y;
      held = { x: event.offsetX, y: event.offsetY, moved: held.moved + Math.abs(dx) + Math.abs(dy) };
      left -= dx / (side() * scale);
      top += dy / (side() * scale);
      redraw();
    } else canvas.classList.toggle("on-point", nearest(event.offsetX, event.offsetY) >= 0);
  });
  canvas.addEventListener("pointerup", (event) => {
    const still = held && held.moved < 4;
    held = null;
    if (!still) return;
    const point = nearest(event.offsetX, event.offsetY);
    if (point >= 0) show(point);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = 0.1 / scale, middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.key === "+" || event.key === "=") zoom(1.4, ...middle);
    else if (event.key === "-") zoom(1 / 1.4, ...middle);
    else if (event.key === "0") zoom(0, ...middle);
    else if (event.key === "Enter") { const point = nearest(...middle); if (point >= 0) show(point); }
    else if (moves[event.key]) { left += moves[event.key][0]; top += moves[event.key][1]; redraw(); }
    else return;
    event.preventDefault();
  });
  for (const line of legend) {
    const group = Number(line.dataset.group);
    const button = document.createElement("button");
    button.className = "plain only";
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(...line.childNodes);
    line.append(button);
    button.addEventListener("click", () => {
      only = only === group ? -1 : group;
      for (const other of legend) other.firstElementChild.setAttribute("aria-pressed", String(only === Number(other.dataset.group)));
      redraw();
    });
  }
  for (const { line, point } of evidence) {
    line.addEventListener("pointerenter", () => { near = point; redraw(); });
    line.addEventListener("pointerleave", () => { near = -1; redraw(); });
  }
  document.getElementById("colour").addEventListener("change", (event) => event.target.form.submit());
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  const load = async () => {
    const answer = await fetch(box.dataset.points);
    if (!answer.ok) { statusLine.textContent = "The points could not be loaded; reload the page."; return; }
    const data = await answer.arrayBuffer();
    count = data.byteLength / 5;
    // The two axes are u16 and begin at an even byte; the groups are bytes behind them.
    xs = new Uint16Array(data, 0, count);
    ys = new Uint16Array(data, 2 * count, count);
    groups = new Uint8Array(data, 4 * count, count);
    arrange();
    draw();
    box.dataset.drawn = String(count);
    statusLine.textContent = "Click a point to see its text. Scroll to zoom, drag to move, press 0 to see everything.";
  };
  load();
})();
