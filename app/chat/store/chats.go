package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"neuron/app/chat/thread"
	"neuron/engine/protocol"
)

// Chats lists all chats that are not deleted, the one used last first.
func (s *Store) Chats(ctx context.Context) ([]thread.Chat, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, title, named, model, private, system, params, draft, head, created, updated
		FROM chat WHERE deleted = 0 ORDER BY updated DESC, id`)
	if err != nil {
		return nil, s.wrap("list", err)
	}
	defer rows.Close()
	var out []thread.Chat
	for rows.Next() {
		var c thread.Chat
		var params string
		var created, updated int64
		if err := rows.Scan(&c.ID, &c.Title, &c.Named, &c.Model, &c.Private, &c.System, &params, &c.Draft, &c.Head, &created, &updated); err != nil {
			return nil, s.wrap("list", err)
		}
		if err := json.Unmarshal([]byte(params), &c.Params); err != nil {
			return nil, &damagedError{fmt.Errorf("parameters: %w", err)}
		}
		c.Created, c.Updated = time.UnixMicro(created), time.UnixMicro(updated)
		out = append(out, c)
	}
	return out, s.wrap("list", rows.Err())
}

// Put writes a chat and some of its messages in one step: all of it, or nothing.
// Messages that are there already get the new text and state. A chat that is
// deleted stays so.
func (s *Store) Put(ctx context.Context, c *thread.Chat, messages ...thread.Message) error {
	params, err := json.Marshal(c.Params)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode parameters: %w", err)
	}
	return s.tx(ctx, "write", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO chat (id, title, named, model, private, system, params, draft, head, created, updated)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET title = excluded.title, named = excluded.named, model = excluded.model, private = excluded.private,
			system = excluded.system, params = excluded.params, draft = excluded.draft, head = excluded.head, updated = excluded.updated`,
			int64(c.ID), c.Title, c.Named, c.Model, c.Private, c.System, string(params), c.Draft, int64(c.Head), c.Created.UnixMicro(), c.Updated.UnixMicro()); err != nil {
			return err
		}
		for i := range messages {
			if err := putMessage(ctx, tx, c.ID, &messages[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func putMessage(ctx context.Context, tx *sql.Tx, chat thread.ID, m *thread.Message) error {
	fault, err := object(m.Error)
	if err != nil {
		return err
	}
	stats, err := object(m.Stats)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO message (id, chat, parent, role, text, state, finish, error, model, private, stats, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET text = excluded.text, state = excluded.state, finish = excluded.finish, error = excluded.error,
		model = excluded.model, private = excluded.private, stats = excluded.stats`,
		int64(m.ID), int64(chat), int64(m.Parent), string(m.Role), m.Text, string(m.State), string(m.Finish), fault, m.Model, m.Private, stats, m.Created.UnixMicro())
	return err
}

// object is the JSON of what v points to, "" for nil.
func object[T any](v *T) (string, error) {
	if v == nil {
		return "", nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "", protocol.Errorf(protocol.CodeInternal, "encode a message: %w", err)
	}
	return string(raw), nil
}

// Messages are all messages of a chat, in no stated order.
func (s *Store) Messages(ctx context.Context, chat thread.ID) ([]thread.Message, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, parent, role, text, state, finish, error, model, private, stats, created
		FROM message WHERE chat = ? ORDER BY created, id`, int64(chat))
	if err != nil {
		return nil, s.wrap("read", err)
	}
	defer rows.Close()
	var out []thread.Message
	for rows.Next() {
		m := thread.Message{Chat: chat}
		var fault, stats string
		var created int64
		if err := rows.Scan(&m.ID, &m.Parent, &m.Role, &m.Text, &m.State, &m.Finish, &fault, &m.Model, &m.Private, &stats, &created); err != nil {
			return nil, s.wrap("read", err)
		}
		// What cannot be read of these is no reason to hide the text.
		if fault != "" {
			m.Error = new(protocol.Error)
			if err := json.Unmarshal([]byte(fault), m.Error); err != nil {
				m.Error = nil
			}
		}
		if stats != "" {
			m.Stats = new(thread.Stats)
			if err := json.Unmarshal([]byte(stats), m.Stats); err != nil {
				m.Stats = nil
			}
		}
		m.Created = time.UnixMicro(created)
		out = append(out, m)
	}
	return out, s.wrap("read", rows.Err())
}

// Delete hides a chat until Restore or Purge.
func (s *Store) Delete(ctx context.Context, chat thread.ID, now time.Time) error {
	return s.mark(ctx, chat, now.UnixMicro())
}

// Restore brings a deleted chat back.
func (s *Store) Restore(ctx context.Context, chat thread.ID) error { return s.mark(ctx, chat, 0) }

func (s *Store) mark(ctx context.Context, chat thread.ID, deleted int64) error {
	_, err := s.db.ExecContext(ctx, "UPDATE chat SET deleted = ? WHERE id = ?", deleted, int64(chat))
	return s.wrap("delete", err)
}

// Purge removes what was deleted for good, also from the side files.
func (s *Store) Purge(ctx context.Context) error {
	gone, err := s.db.ExecContext(ctx, "DELETE FROM chat WHERE deleted <> 0")
	if err != nil {
		return s.wrap("remove", err)
	}
	n, err := gone.RowsAffected()
	if err != nil || n == 0 {
		return s.wrap("remove", err)
	}
	_, err = s.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return s.wrap("remove", err)
}

// Remove takes a chat away at once, for one that nobody has seen.
func (s *Store) Remove(ctx context.Context, chat thread.ID) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM chat WHERE id = ?", int64(chat))
	return s.wrap("remove", err)
}

// Damaged reports whether err says that the file is broken: the next start sets
// it aside.
func Damaged(err error) bool {
	var d *damagedError
	return errors.As(err, &d)
}
