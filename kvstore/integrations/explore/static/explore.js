// What pages gain by a script; each of them can do without.
"use strict";

// A slash focuses the search of the page, or opens the page of questions.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  const field = document.querySelector("main input[type=search], main textarea");
  if (field) { field.focus(); field.select(); } else location.href = "/ask";
});

// In a comparison, a passage that is pointed at, or reached by keyboard, is shown wherever else it was found.
document.addEventListener("DOMContentLoaded", () => {
  const compared = document.querySelector(".compared");
  if (!compared) return;
  const show = (event) => {
    const passage = event.target.closest?.("[data-passage]")?.dataset.passage;
    for (const one of compared.querySelectorAll("[data-passage]")) {
      one.classList.toggle("same", passage !== undefined && one.dataset.passage === passage);
    }
  };
  for (const kind of ["pointerover", "focusin", "pointerleave", "focusout"]) compared.addEventListener(kind, show);
});
