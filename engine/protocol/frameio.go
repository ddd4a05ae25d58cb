package protocol

import (
	"bufio"
	"errors"
	"io"
	"slices"
)

// FrameReader reads frames from a byte stream. It is not safe for concurrent
// use; one goroutine per stream does nothing but read.
//
// "No I/O" in the package comment means that nothing here opens or owns a
// stream: reader and writer work on what the caller passes in.
type FrameReader struct {
	r   *bufio.Reader
	lim Limits
	hdr [HeaderSize]byte
	// spare is the room of a payload that nobody needs any more.
	spare []byte
	// bytes counts everything that was taken, headers included.
	bytes int64
}

// readAhead holds a decode frame of the usual widths: it arrives in one read,
// header and payload, and longer payloads pass by the buffer.
const readAhead = 32 << 10

// NewFrameReader returns a reader that enforces l. It reads ahead, so nobody
// else can go on reading r.
func NewFrameReader(r io.Reader, l Limits) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, readAhead), lim: l}
}

// Read returns the next frame with a payload of its own, io.EOF at a clean end
// between frames, io.ErrUnexpectedEOF inside one, or an *Error for bytes that
// break the format. After an *Error the stream is of no further use.
func (fr *FrameReader) Read() (*Frame, error) {
	n, err := io.ReadFull(fr.r, fr.hdr[:])
	fr.bytes += int64(n)
	if err != nil {
		return nil, err
	}
	h, sum, err := ParseHeader(fr.hdr[:], fr.lim)
	if err != nil {
		return nil, err
	}
	f := &Frame{Header: h}
	if h.Length > 0 {
		if f.Payload, err = fr.payload(int(h.Length)); err != nil {
			return nil, err
		}
	}
	if err := CheckPayload(fr.hdr[:], sum, f.Payload); err != nil {
		return nil, err
	}
	return f, nil
}

// payloadStep bounds what is allocated ahead of the bytes that arrive: a header
// alone must not cost the receiver its largest payload.
const payloadStep = 1 << 20

// payload reads n bytes.
func (fr *FrameReader) payload(n int) ([]byte, error) {
	p := fr.spare[:0]
	if fr.spare = nil; cap(p) < n {
		p = make([]byte, 0, min(n, payloadStep))
	}
	for len(p) < n {
		at := len(p)
		p = slices.Grow(p, min(n-at, payloadStep))[:at+min(n-at, payloadStep)]
		got, err := io.ReadFull(fr.r, p[at:])
		fr.bytes += int64(got)
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Recycle takes back the payload of a frame of this reader, for one that follows:
// neither the caller nor anybody else has it any more.
func (fr *FrameReader) Recycle(f *Frame) { fr.spare, f.Payload = f.Payload, nil }

// Bytes is the number of bytes read so far.
func (fr *FrameReader) Bytes() int64 { return fr.bytes }

// FrameWriter writes frames. It is not safe for concurrent use.
type FrameWriter struct {
	w   io.Writer
	lim Limits
	buf []byte
	// bytes counts everything written, headers included.
	bytes int64
}

// NewFrameWriter returns a writer that enforces l.
func NewFrameWriter(w io.Writer, l Limits) *FrameWriter { return &FrameWriter{w: w, lim: l} }

// Write sends the frames in one Write call of the underlying writer, or none of
// them when one breaks the format.
func (fw *FrameWriter) Write(frames ...*Frame) error {
	b := fw.buf[:0]
	for _, f := range frames {
		var err error
		if b, err = AppendFrame(b, f, fw.lim); err != nil {
			return err
		}
	}
	fw.buf = b
	n, err := fw.w.Write(b)
	fw.bytes += int64(n)
	return err
}

// Bytes is the number of bytes written so far.
func (fw *FrameWriter) Bytes() int64 { return fw.bytes }
