#!/usr/bin/env python3
"""The correctness reference: decoders of the Llama, Qwen and Gemma families in plain PyTorch, float32, on one thread.

It reads GGUF files by itself and shares no code with llama.cpp or Neuron: it was written from the format's description
and the models' papers. Requests come as lines of JSON, answers go out likewise:

    {"op": "load", "model": FILE}                 take this model from now on
    {"op": "logits", "ids": [...], "out": FILE}   all logits of all positions, as float32, into FILE
    {"op": "prompt", "ids": [...]}                forget what was, take in a prompt, keep its keys and values
    {"op": "decode", "steps": N}                  greedy tokens behind the prompt, and the seconds that they took

A decode starts behind the prompt each time. Needs Python 3.9 and PyTorch 1.13 or newer.
"""
import json, math, mmap, struct, sys, time
import numpy as np, torch, torch.nn.functional as F

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


def read_gguf(path):
    """Metadata, and per tensor its type, shape (rows last in the file, first here) and bytes."""
    with open(path, "rb") as f:
        buf = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    at = 0

    def take(fmt):
        nonlocal at
        v = struct.unpack_from(fmt, buf, at)[0]
        at += struct.calcsize(fmt)
        return v

    def text():
        nonlocal at
        n = take("<Q")
        at += n
        return buf[at - n:at].decode("utf-8", "replace")

    def value(t):
        if t == 8:
            return text()
        if t == 9:
            e, n = take("<I"), take("<Q")
            return [value(e) for _ in range(n)]
        return take(SCALARS[t])

    magic, version, tensors, keys = take("<4s"), take("<I"), take("<Q"), take("<Q")
    assert magic == b"GGUF" and version in (2, 3), "not a GGUF of version 2 or 3"
    meta = {}
    for _ in range(keys):
        key = text()  # before the value: an assignment would read them the other way round
        meta[key] = value(take("<I"))
    infos = []
    for _ in range(tensors):
        name, dims = text(), [take("<Q") for _ in range(take("<I"))]
        infos.append((name, dims[::-1], take("<I"), take("<Q")))
    align = meta.get("general.alignment", 32)
    start = (at + align - 1) // align * align
    return meta, {name: weights(buf, start + off, kind, shape) for name, shape, kind, off in infos}


def weights(buf, at, kind, shape):
    """One tensor in float32. Q8_0 and Q4_0 are blocks of 32 weights with a half-precision scale in front."""
    n = math.prod(shape)
    if kind in (0, 1):
        a = np.frombuffer(buf, {0: "<f4", 1: "<f2"}[kind], n, at).astype(np.float32)
    elif kind == 30:  # BF16: the upper half of a float32
        a = (np.frombuffer(buf, "<u2", n, at).astype(np.uint32) << 16).view(np.float32)
    elif kind == 8:
        b = np.frombuffer(buf, np.dtype([("d", "<f2"), ("q", "i1", 32)]), n // 32, at)
        a = b["q"] * b["d"].astype(np.float32)[:, None]
    elif kind == 2:
        b = np.frombuffer(buf, np.dtype([("d", "<f2"), ("q", "u1", 16)]), n // 32, at)
        a = np.concatenate([b["q"] & 15, b["q"] >> 4], 1).astype(np.float32)
        a -= 8
        a *= b["d"].astype(np.float32)[:, None]
    else:
        raise SystemExit(f"tensors of type {kind} are not read here")
    return torch.from_numpy(a.reshape(shape))


class Model:
    def __init__(self, path):
        self.meta, self.w = read_gguf(path)
        self.arch = self.meta["general.architecture"]
        self.gemma = self.arch.startswith("gemma")
        assert self.arch in ("llama", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3"), self.arch
        g = self.get
        self.layers, self.heads, self.width = g("block_count"), g("attention.head_count"), g("embedding_length")
        self.kv = g("attention.head_count_kv", self.heads)
        self.head = g("attention.key_length", self.width // self.heads)
        self.eps, self.window = g("attention.layer_norm_rms_epsilon"), g("attention.sliding_window", 0)
        self.used = g("expert_used_count", 0)
        # Of a period all layers but the last slide.
        self.period = g("attention.sliding_window_pattern", {"gemma2": 2, "gemma3": 6}.get(self.arch, 1))
        self.cache = [None] * self.layers
        self.pos = 0

    def get(self, key, default=None):
        return self.meta.get(f"{self.arch}.{key}", default)

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w[name]

    def linear(self, x, name):
        """A row alone goes through mv, PyTorch's fastest way for one token."""
        w, b = self.w[name + ".weight"], self.w.get(name + ".bias")
        y = torch.mv(w, x[0])[None] if len(x) == 1 else x @ w.T
        return y if b is None else y + b

    def rope(self, x, pos, sliding):
        base = self.get("rope.freq_base", 10000.0)
        if sliding:
            base = self.get("rope.freq_base_swa", 10000.0 if self.arch == "gemma3" else base)
        turn = base ** (-torch.arange(0, self.head, 2, dtype=torch.float64) / self.head)
        if "rope_freqs.weight" in self.w:
            turn = turn / self.w["rope_freqs.weight"]
        angle = torch.outer(pos.double(), turn)
        c, s = angle.cos().float()[:, None], angle.sin().float()[:, None]
        if self.arch == "llama":  # neighbours turn together; elsewhere the two halves
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    def attention(self, x, i):
        p, n = f"blk.{i}.", len(x)
        pos = torch.arange(self.pos, self.pos + n)
        q, k, v = (self.linear(x, p + "attn_" + m).view(n, -1, self.head) for m in "qkv")
        if p + "attn_q_norm.weight" in self.w:
            q, k = self.norm(q, p + "attn_q_norm.weight"), self.norm(k, p + "attn_k_norm.weight")
        sliding = self.window > 0 and i % self.period < self.period - 1
        q, k = self.rope(q, pos, sliding), self.rope(k, pos, sliding)
        if self.cache[i] is not None:
            k, v = torch.cat((self.cache[i][0][:self.pos], k)), torch.cat((self.cache[i][1][:self.pos], v))
        self.cache[i] = k, v
        group = self.heads // self.kv  # query heads that share a head of keys
        q = q.view(n, self.kv, group, self.head).permute(1, 2, 0, 3).reshape(self.kv, group * n, self.head)
        score = torch.bmm(q, k.permute(1, 2, 0)).view(self.kv, group, n, -1) / math.sqrt(self.head)
        if cap := self.get("attn_logit_softcapping"):
            score = cap * torch.tanh(score / cap)
        if n > 1 or sliding:
            far = pos[:, None] - torch.arange(len(k))[None]
            hidden = (far < 0) | (far >= self.window) if sliding else far < 0
            score = score.masked_fill(hidden, -math.inf)
        out = torch.bmm(score.softmax(-1).view(self.kv, group * n, -1), v.permute(1, 0, 2))
        return self.linear(out.view(self.kv, group, n, self.head).permute(2, 0, 1, 3).reshape(n, -1), p + "attn_output")

    def feed(self, x, i):
        p = f"blk.{i}."
        act = (lambda y: F.gelu(y, approximate="tanh")) if self.gemma else F.silu
        if p + "ffn_gate_inp.weight" not in self.w:
            return self.linear(act(self.linear(x, p + "ffn_gate")) * self.linear(x, p + "ffn_up"), p + "ffn_down")
        gate, up, down = (self.w[p + f"ffn_{m}_exps.weight"] for m in ("gate", "up", "down"))
        share, chosen = self.linear(x, p + "ffn_gate_inp").softmax(-1).topk(self.used)
        share = share / share.sum(-1, keepdim=True)
        return torch.stack([sum(s * (down[e] @ (act(gate[e] @ row) * (up[e] @ row))) for s, e in zip(ss, es.tolist()))
                            for row, ss, es in zip(x, share, chosen)])

    def forward(self, ids):
        """Logits of all rows; keys and values of the positions from self.pos on are new."""
        x = self.w["token_embd.weight"][torch.tensor(ids)]
        if self.gemma:
            x = x * math.sqrt(self.width)
        for i in range(self.layers):
            p = f"blk.{i}."
            for step, before, after in ((self.attention, "attn_norm", "post_attention_norm"), (self.feed, "ffn_norm", "post_ffw_norm")):
                y = step(self.norm(x, p + before + ".weight"), i)
                x = x + (self.norm(y, p + after + ".weight") if p + after + ".weight" in self.w else y)
        self.pos += len(ids)
        x = self.linear(self.norm(x, "output_norm.weight"), "output" if "output.weight" in self.w else "token_embd")
        cap = self.get("final_logit_softcapping")
        return cap * torch.tanh(x / cap) if cap else x

    def forget(self):
        self.pos, self.cache = 0, [None] * self.layers


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model, prompt, first = None, 0, 0
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        ask, answer = json.loads(line), {}
        if ask["op"] == "load":
            model = Model(ask["model"])
        elif ask["op"] == "logits":
            model.forget()
            model.forward(ask["ids"]).numpy().tofile(ask["out"])
        elif ask["op"] == "prompt":
            model.forget()
            first, prompt = int(model.forward(ask["ids"])[-1].argmax()), len(ask["ids"])
        else:
            model.pos, tokens, began = prompt, [first], time.monotonic()
            for _ in range(ask["steps"]):
                tokens.append(int(model.forward([tokens[-1]])[-1].argmax()))
            answer = {"seconds": time.monotonic() - began, "tokens": tokens}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
