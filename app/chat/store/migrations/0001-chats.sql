CREATE TABLE chat (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  named INTEGER NOT NULL,
  model TEXT NOT NULL,
  private INTEGER NOT NULL,
  system TEXT NOT NULL,
  params TEXT NOT NULL,   -- JSON of thread.Params
  draft TEXT NOT NULL,
  head INTEGER NOT NULL,  -- message, 0: none
  created INTEGER NOT NULL,  -- microseconds since 1970, here and below
  updated INTEGER NOT NULL,
  deleted INTEGER NOT NULL DEFAULT 0  -- when, 0: it is not
) STRICT;

CREATE TABLE message (
  id INTEGER PRIMARY KEY,
  chat INTEGER NOT NULL REFERENCES chat (id) ON DELETE CASCADE,
  parent INTEGER NOT NULL,  -- message, 0: the chat begins here
  role TEXT NOT NULL,
  text TEXT NOT NULL,
  state TEXT NOT NULL,
  finish TEXT NOT NULL,
  error TEXT NOT NULL,  -- JSON of protocol.Error, '' for none
  model TEXT NOT NULL,
  private INTEGER NOT NULL,
  stats TEXT NOT NULL,  -- JSON of thread.Stats, '' for none
  created INTEGER NOT NULL
) STRICT;

CREATE INDEX message_chat ON message (chat, created);

-- Pieces of three characters find parts of words too: German compounds, and
-- languages that put no spaces between words.
CREATE VIRTUAL TABLE found USING fts5 (text, content = 'message', content_rowid = 'id', tokenize = 'trigram remove_diacritics 1');
INSERT INTO found (found, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
  INSERT INTO found (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER message_changed AFTER UPDATE OF text ON message WHEN old.text <> new.text BEGIN
  INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text);
  INSERT INTO found (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER message_gone AFTER DELETE ON message BEGIN
  INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text);
END;
