"use strict";
(function () {
  // Tooltips: the browser's own are slow, and no finger can call them.
  var box = document.getElementById("tip");
  document.addEventListener("mousemove", function (e) {
    var part = e.target.closest ? e.target.closest("[title], [data-tip]") : null;
    box.hidden = part === null;
    if (part === null) { return; }
    if (part.title) { part.dataset.tip = part.title; part.removeAttribute("title"); }
    box.textContent = part.dataset.tip;
    var right = window.innerWidth - box.offsetWidth - 8, low = window.innerHeight - box.offsetHeight - 8;
    box.style.left = Math.max(8, Math.min(e.clientX + 14, right)) + "px";
    box.style.top = Math.max(8, Math.min(e.clientY + 18, low)) + "px";
  });
  // A click on a box of the timeline shows its command in the listing.
  document.addEventListener("click", function (e) {
    var part = e.target.closest ? e.target.closest("[data-line]") : null;
    if (part !== null) { window.location.hash = part.dataset.line; }
  });
})();
