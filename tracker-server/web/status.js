(function () {
  var note = document.getElementById('stream'), live = document.getElementById('live');
  var events = new EventSource('/events');
  events.onopen = function () { note.textContent = 'Live'; };
  events.onerror = function () { note.textContent = 'No connection, trying again'; };
  events.onmessage = function (e) { live.innerHTML = e.data; };
})();
