package load

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v3/process"

	"neuron/engine/protocol"
	"neuron/internal/localnet"
	"neuron/internal/publish"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// certificate makes a certificate for loopback and returns its files and the
// pool that trusts it.
func certificate(dir string) (certFile, keyFile string, roots *x509.CertPool, err error) {
	fail := func(err error) (string, string, *x509.CertPool, error) {
		return "", "", nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "load"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return fail(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(certFile, cert, 0o600); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return fail(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return certFile, keyFile, roots, nil
}

// model is a published one.
type model struct {
	id   protocol.ModelID
	name string
}

// layers of each model; nodes hold one half.
const layers = 8

// publishModels puts small random models into the catalog with the tracker's
// own command, while it runs.
func publishModels(ctx context.Context, o *Options, n *localnet.Net) ([]model, error) {
	out := make([]model, o.Models)
	for i := range out {
		name := fmt.Sprintf("load-%02d", i)
		file := filepath.Join(o.Data, name+".gguf")
		shape := synth.Shape{Family: synth.FamilyLlama, Layers: layers, Embd: 64, FF: 64, Heads: 1, KVHeads: 1, HeadDim: 64, Vocab: 512, Context: 4096}
		if err := synth.Write(file, shape, synth.Options{Type: gguf.TypeF16, Seed: uint64(i) + 1}); err != nil {
			return nil, err
		}
		r, err := publish.Build(ctx, []string{file}, publish.Options{Name: name})
		if err != nil {
			return nil, err
		}
		out[i] = model{r.Manifest.Model, name}
		cmd := exec.CommandContext(ctx, filepath.Join(o.Bin, "neuron-tracker"), "publish", file, "--name", name, "--data", n.Tracker.Data)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("publish %s: %w: %s", name, err, text)
		}
	}
	return out, nil
}

// tracker watches the process under load.
type tracker struct {
	proc   *localnet.Proc
	url    string
	client *http.Client
}

// memory is what a process holds: live is its heap and stacks.
type memory struct{ live, resident int64 }

// memoryFor is how long memory is watched: its smallest value is that after a
// garbage collection.
const memoryFor = 15 * time.Second

func (t *tracker) memory(ctx context.Context) (least memory, err error) {
	for range memoryFor / (500 * time.Millisecond) {
		m, err := t.memoryNow(ctx)
		if err != nil {
			return m, err
		}
		if least.live == 0 || m.live < least.live {
			least = m
		}
		if err := wait(ctx, 500*time.Millisecond); err != nil {
			return m, err
		}
	}
	return least, nil
}

func (t *tracker) memoryNow(ctx context.Context) (memory, error) {
	p, err := process.NewProcess(int32(t.proc.Pid()))
	if err != nil {
		return memory{}, fmt.Errorf("the tracker's process: %w", err)
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return memory{}, fmt.Errorf("the tracker's memory: %w", err)
	}
	m := memory{resident: int64(info.RSS)}
	v, err := t.metrics(ctx, "go_memstats_heap_alloc_bytes", "go_memstats_stack_inuse_bytes")
	if err != nil {
		return m, err
	}
	m.live = int64(v[0] + v[1])
	return m, nil
}

// metrics reads values that the tracker must have, in the order of their names.
func (t *tracker) metrics(ctx context.Context, names ...string) ([]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer resp.Body.Close()
	values, found := make([]float64, len(names)), 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		i := slices.Index(names, name)
		if i < 0 {
			continue
		}
		if values[i], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		found++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if found != len(names) {
		return nil, fmt.Errorf("the tracker's metrics lack some of %v", names)
	}
	return values, nil
}

// inTime is which share of the leases left the tracker within the time that is
// allowed for a route request, by its own clock.
func (t *tracker) inTime(ctx context.Context) (float64, error) {
	const name = "neuron_tracker_lease_seconds"
	v, err := t.metrics(ctx, fmt.Sprintf(name+`_bucket{le="%g"}`, routeP99.Seconds()), name+"_count")
	if err != nil {
		return 0, err
	}
	return v[0] / max(1, v[1]), nil
}

// cpu is the processor time that the tracker has used.
func (t *tracker) cpu() (time.Duration, error) {
	p, err := process.NewProcess(int32(t.proc.Pid()))
	if err != nil {
		return 0, fmt.Errorf("the tracker's process: %w", err)
	}
	times, err := p.Times()
	if err != nil {
		return 0, fmt.Errorf("the tracker's CPU time: %w", err)
	}
	return time.Duration((times.User + times.System) * float64(time.Second)), nil
}

// ownCPU is the processor time that this process has used.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("this process's CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// fileLimit tells how many files this process may open; the Go runtime raises
// the soft limit to the hard one at its start.
func fileLimit() string {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d", l.Cur)
}
