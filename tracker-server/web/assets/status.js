// Keeps the status page live. Without it the page is complete, as of its loading.
(function () {
  'use strict';
  var script = document.currentScript;

  // Theme: the links work by themselves; here they work without a new page.
  var links = document.querySelectorAll('.themes a');
  links.forEach(function (link) {
    link.addEventListener('click', function (e) {
      e.preventDefault();
      var to = link.dataset.to;
      document.documentElement.dataset.theme = to;
      document.cookie = 'neuron_theme=' + (to === 'auto' ? '; max-age=0' : to + '; max-age=31536000') + '; path=/; samesite=lax';
      links.forEach(function (l) {
        if (l === link) { l.setAttribute('aria-current', 'true'); } else { l.removeAttribute('aria-current'); }
      });
    });
  });

  var since = script && script.dataset.since;
  if (!since || !window.EventSource) { return; }
  var note = document.getElementById('stream');
  function say(state, text) {
    if (note.dataset.state !== state) { note.dataset.state = state; note.textContent = text; }
  }

  function make(html) {
    var t = document.createElement('template');
    t.innerHTML = html;
    return t.content.firstElementChild;
  }

  // What a reader has opened or focused stays so in the new element.
  function keep(from, to) {
    var a = from.querySelectorAll('details'), b = to.querySelectorAll('details');
    a.forEach(function (d, i) { if (d.open && b[i]) { b[i].open = true; } });
    return Array.prototype.indexOf.call(from.querySelectorAll('a,summary'), document.activeElement);
  }

  function apply(update) {
    var fresh = {};
    Object.keys(update.set || {}).forEach(function (key) {
      var el = make(update.set[key]), old = document.getElementById(key);
      if (!old) { fresh[key] = el; return; }
      var focus = keep(old, el);
      old.replaceWith(el);
      if (focus >= 0) {
        var to = el.querySelectorAll('a,summary')[focus];
        if (to) { to.focus({ preventScroll: true }); }
      }
    });
    Object.keys(update.lists || {}).forEach(function (id) {
      var list = document.getElementById(id), keys = update.lists[id];
      keys.forEach(function (key, i) {
        var el = fresh[key] || document.getElementById(key);
        if (el && list.children[i] !== el) { list.insertBefore(el, list.children[i] || null); }
      });
      while (list.children.length > keys.length) { list.lastElementChild.remove(); }
    });
  }

  var events = new EventSource('/events?since=' + encodeURIComponent(since));
  events.onopen = function () { say('live', 'Live'); };
  events.onerror = function () { say('lost', 'No connection, trying again'); };
  events.onmessage = function (e) { apply(JSON.parse(e.data)); };
})();
