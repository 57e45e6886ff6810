// Measures the page as a browser lays it out. layout_test.go evaluates it.
function () {
  "use strict";
  var facts = {
    width: window.innerWidth, page: document.documentElement.scrollWidth,
    dark: window.matchMedia("(prefers-color-scheme: dark)").matches,
    outside: [], overlaps: [], faint: [], small: [], scrolling: [], broken: [], headless: [], texts: 0
  };
  function name(e) {
    var text = (e.textContent || "").trim().slice(0, 30);
    return e.tagName.toLowerCase() + (e.className ? "." + e.className : "") + " \"" + text + "\"";
  }
  // The part of the rectangle that e and its ancestors do not clip.
  function clip(rect, e) {
    var r = { left: rect.left, right: rect.right, top: rect.top, bottom: rect.bottom };
    for (; e !== null && e !== document.documentElement; e = e.parentElement) {
      var style = getComputedStyle(e);
      if (style.overflowX !== "visible" || style.clipPath !== "none") {
        var outer = e.getBoundingClientRect();
        r.left = Math.max(r.left, outer.left); r.right = Math.min(r.right, outer.right);
        r.top = Math.max(r.top, outer.top); r.bottom = Math.min(r.bottom, outer.bottom);
        if (style.clipPath !== "none") { r.right = r.left; }
      }
    }
    return r;
  }
  function luminance(color) {
    var parts = color.map(function (c) {
      c = c / 255;
      return c <= 0.04045 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  }
  function contrast(a, b) {
    var x = luminance(a), y = luminance(b);
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  }
  function rgb(text) { return (text.match(/[\d.]+/g) || []).map(Number); }
  // The colours behind the text of e: that of the innermost box with a colour, and that of a bar.
  function backgrounds(e) {
    var list = [], probe = document.createElement("i");
    for (; e !== null; e = e.parentElement) {
      var style = getComputedStyle(e), color = rgb(style.backgroundColor);
      if (style.backgroundImage !== "none") {
        probe.style.color = "var(--bar)";
        e.appendChild(probe);
        list.push(rgb(getComputedStyle(probe).color));
        e.removeChild(probe);
      }
      if (color.length < 4 || color[3] > 0) { list.push(color); break; }
    }
    return list;
  }
  var walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), boxes = [], node;
  while ((node = walker.nextNode()) !== null) {
    var e = node.parentElement;
    if (node.textContent.trim() === "" || e.tagName === "SCRIPT" || e.closest("[hidden]")) { continue; }
    var range = document.createRange();
    range.selectNodeContents(node);
    var shown = false;
    Array.prototype.forEach.call(range.getClientRects(), function (rect) {
      var r = clip(rect, e);
      if (r.right - r.left < 1 || r.bottom - r.top < 1) { return; }
      shown = true;
      boxes.push({ r: r, e: e });
      if (r.right > window.innerWidth + 1 || r.left < -1) { facts.outside.push(name(e)); }
    });
    if (!shown) { continue; }
    facts.texts++;
    var style = getComputedStyle(e), ink = rgb(style.color);
    if (parseFloat(style.fontSize) < 11) { facts.small.push(name(e) + " " + style.fontSize); }
    backgrounds(e).forEach(function (paper) {
      var ratio = contrast(ink, paper);
      if (ratio < 4.5) { facts.faint.push(name(e) + " " + ratio.toFixed(2)); }
    });
  }
  boxes.sort(function (a, b) { return a.r.top - b.r.top; });
  boxes.forEach(function (a, i) {
    for (var j = i + 1; j < boxes.length && boxes[j].r.top < a.r.bottom; j++) {
      var b = boxes[j];
      var across = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
      var down = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
      if (a.e !== b.e && across > 2 && down > 4) { facts.overlaps.push(name(a.e) + " and " + name(b.e)); }
    }
  });
  document.querySelectorAll(".scroll").forEach(function (e) {
    if (e.scrollWidth > e.clientWidth + 1) { facts.scrolling.push(name(e.firstElementChild)); }
  });
  document.querySelectorAll("a[href^='#']").forEach(function (a) {
    if (document.getElementById(a.getAttribute("href").slice(1)) === null) { facts.broken.push(name(a)); }
  });
  document.querySelectorAll("table.data").forEach(function (table) {
    var heads = Array.prototype.map.call(table.querySelectorAll("th"), function (h) { return h.textContent; });
    table.querySelectorAll("tbody tr").forEach(function (row) {
      if (row.children.length !== heads.length || heads.indexOf("") >= 0) { facts.headless.push(name(table)); }
    });
  });
  var failure = document.getElementById("failure"), timeline = document.getElementById("timeline");
  var listing = document.getElementById("listing");
  facts.failure = failure === null ? -1 : failure.getBoundingClientRect().bottom;
  facts.marks = document.querySelectorAll(".row i.failed, .line.failed, .data tr.failed, .flag b").length;
  facts.beside = listing !== null && listing.getBoundingClientRect().left > document.querySelector("main").getBoundingClientRect().right;
  facts.timeline = timeline === null ? -1 : timeline.getBoundingClientRect().width;
  return facts;
}
