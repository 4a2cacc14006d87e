// Completion in the editor of statements: a list that follows what is typed, by keyboard or pointer.
"use strict";

(() => {
  const editor = document.getElementById("sql");
  const list = document.getElementById("offered");
  let offered = [];
  let chosen = -1;
  let asked = 0;
  let waiting = 0;

  editor.setAttribute("aria-haspopup", "listbox");
  editor.setAttribute("aria-autocomplete", "list");
  editor.setAttribute("aria-controls", "offered");
  close();

  function close() {
    offered = [];
    chosen = -1;
    list.hidden = true;
    list.replaceChildren();
    editor.removeAttribute("aria-activedescendant");
  }

  function choose(number) {
    chosen = number;
    [...list.children].forEach((item, place) => {
      item.setAttribute("aria-selected", String(place === chosen));
      if (place === chosen) {
        editor.setAttribute("aria-activedescendant", item.id);
        item.scrollIntoView({ block: "nearest" });
      }
    });
  }

  function take(number) {
    const one = offered[number];
    const after = editor.value.slice(editor.selectionStart);
    editor.value = editor.value.slice(0, one.start) + one.text + after;
    const cursor = one.start + one.text.length;
    editor.setSelectionRange(cursor, cursor);
    close();
    editor.focus();
  }

  function show(found) {
    close();
    offered = found;
    if (!found.length) return;
    found.forEach((one, number) => {
      const item = document.createElement("li");
      item.id = `offered-${number}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.append(one.text);
      const kind = document.createElement("span");
      kind.className = "quiet";
      kind.textContent = one.kind;
      item.append(kind);
      item.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(number);
      });
      list.append(item);
    });
    list.hidden = false;
  }

  async function complete() {
    const number = ++asked;
    const before = editor.value.slice(0, editor.selectionStart);
    const url = `${editor.dataset.completions}?before=${encodeURIComponent(before)}`;
    const answer = await fetch(url);
    // A later question has been asked meanwhile, or what is offered is there already.
    if (number !== asked || !answer.ok) return;
    const found = await answer.json();
    const typed = (one) => before.slice(one.start);
    show(found.filter((one) => one.text !== typed(one)));
  }

  // A running statement can be stopped: the request has a name, by which the server finds it.
  const stop = document.getElementById("stop");
  editor.form.addEventListener("submit", () => {
    const run = document.createElement("input");
    run.type = "hidden";
    run.name = "run";
    run.value = crypto.randomUUID();
    editor.form.querySelector("[name=run]")?.remove();
    editor.form.append(run);
    stop.hidden = false;
    stop.onclick = () => fetch(`/sql/stop?run=${run.value}`);
  });
  addEventListener("pageshow", () => { stop.hidden = true; });

  // Statements are saved in the user's settings, which the shell shares.
  const saved = document.getElementById("saved");
  const saving = document.getElementById("saving");
  const savingName = document.getElementById("saving-name");
  const change = async (name, sql) => {
    const answer = await fetch(`/sql/saved?${new URLSearchParams({ name, sql })}`, { method: "POST" });
    const result = await answer.json();
    document.getElementById("saving-status").textContent = answer.ok ? (sql ? `Saved as ${name}.` : `Deleted ${name}.`) : result.error;
    if (!answer.ok) return;
    saved.replaceChildren(...result.map((one) => {
      const line = document.createElement("li"), link = document.createElement("a"), remove = document.createElement("button");
      link.href = `/sql?${new URLSearchParams({ sql: one.sql })}`;
      link.title = one.sql;
      link.textContent = one.name;
      Object.assign(remove, { type: "button", className: "plain small", textContent: "×" });
      remove.dataset.name = one.name;
      remove.setAttribute("aria-label", `Delete ${one.name}`);
      line.append(link, " ", remove);
      return line;
    }));
  };
  saving.hidden = false;
  saving.addEventListener("submit", (event) => {
    event.preventDefault();
    change(savingName.value, editor.value);
  });
  saved.addEventListener("click", (event) => {
    if (event.target.dataset.name) change(event.target.dataset.name, "");
  });

  // Close the list, and ignore the completions that have been asked for.
  const cancel = () => {
    clearTimeout(waiting);
    asked++;
    close();
  };
  editor.addEventListener("input", () => {
    clearTimeout(waiting);
    const before = editor.value.slice(0, editor.selectionStart);
    if (!/[\w'".]$/.test(before)) return cancel();
    waiting = setTimeout(complete, 150);
  });
  editor.addEventListener("blur", cancel);
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      editor.form.requestSubmit();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      complete();
    } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose((chosen + step + offered.length) % offered.length);
    } else if (!list.hidden && (event.key === "Tab" || event.key === "Enter") && chosen >= 0) {
      event.preventDefault();
      take(chosen);
    } else if (!list.hidden && event.key === "Tab" && !event.shiftKey) {
      event.preventDefault();
      take(0);
    } else if (event.key === "Escape") {
      cancel();
    }
  });
})();
