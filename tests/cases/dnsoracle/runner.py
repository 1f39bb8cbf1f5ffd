"""Runs one case against one server command and returns its observations."""
import base64
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.tsigkeyring

from . import wire
from .certs import make_certs
from .kube import Kube
from .upstream import Upstream, load_zones

TOKEN = re.compile(r"@(PORT|DIR|KUBE)(?::([A-Za-z0-9_-]+))?@")
START_LIMIT = 20.0


class Ports:
    """Hands out ports that are free for both UDP and TCP, process wide."""

    lock, given = threading.Lock(), set()

    @classmethod
    def new(cls):
        with cls.lock:
            for _ in range(200):
                t = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
                u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
                try:
                    t.bind(("::", 0))
                    port = t.getsockname()[1]
                    u.bind(("::", port))
                    if port not in cls.given:
                        cls.given.add(port)
                        return port
                except OSError:
                    continue
                finally:
                    t.close()
                    u.close()
        raise RuntimeError("no free port")


def listening_ports(pid):
    """Ports on which the process has a listening TCP or an unconnected UDP socket."""
    inodes = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:
        return set()
    ports = set()
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        try:
            with open(f"/proc/{pid}/net/{table}") as f:
                for line in f.readlines()[1:]:
                    w = line.split()
                    if w[3] == state and w[9] in inodes:
                        ports.add((table[:3], int(w[1].rsplit(":", 1)[1], 16)))
        except OSError:
            pass
    return ports


class Server:
    """The server process under test."""

    def __init__(self, template, conf, port, cwd, env, log):
        cmd = [w.format(conf=conf, port=port) for w in shlex.split(template)]
        self.log = log
        self.out = open(log, "ab")
        clean = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LANG")}
        self.proc = subprocess.Popen(cmd, cwd=cwd, stdout=self.out, stderr=subprocess.STDOUT,
                                     stdin=subprocess.DEVNULL, env={**clean, **env})

    def wait_ready(self, want):
        """True once all wanted ports listen (any port if none wanted); False if it exits."""
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                return False
            have = {p for _, p in listening_ports(self.proc.pid)}
            if have and want <= have:
                time.sleep(0.05)
                return self.proc.poll() is None
            time.sleep(0.03)
        return False

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(8)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.out.close()
        return self.proc.returncode


class CaseRun:
    def __init__(self, case, server_cmd, keep=False, testbed=""):
        self.case, self.cmd, self.keep, self.testbed = case, server_cmd, keep, testbed
        self.dir = tempfile.mkdtemp(prefix="dnsoracle-")
        self.ports, self.up, self.server, self.kube = {}, {}, None, None
        self.defaults = case.get("defaults", "")
        self.keys = case.get("tsig_keys", {})
        self.log_pos = 0

    # -- text substitution ---------------------------------------------------
    def port(self, name="dns"):
        if name not in self.ports:
            self.ports[name] = Ports.new()
        return self.ports[name]

    def expand(self, text):
        def sub(m):
            if m.group(1) == "KUBE":
                return self.kube.value(m.group(2) or "kubeconfig")
            return self.dir if m.group(1) == "DIR" else str(self.port(m.group(2) or "dns"))
        return TOKEN.sub(sub, text)

    def collapse(self, text):
        """Inverse of expand, for text that goes into the golden answers."""
        text = text.replace(self.dir, "@DIR@")
        if self.kube:
            text = re.sub(rf"\b{self.kube.info['port']}\b", "@KUBE:port@", text)
        for name, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", "@PORT@" if name == "dns" else f"@PORT:{name}@", text)
        return text

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        tmp = path + ".tmp"
        with open(tmp, "w") as f:
            f.write(self.expand(text))
        os.replace(tmp, path)
        return path

    # -- whole run -----------------------------------------------------------
    def run(self):
        try:
            if "configs" in self.case:
                return self.run_configs()
            return self.run_steps()
        finally:
            if self.server:
                self.server.stop()
            for u in self.up.values():
                u.stop()
            if self.kube:
                self.kube.stop()
            if not self.keep:
                shutil.rmtree(self.dir, ignore_errors=True)

    def prepare(self, spec):
        tls_files = None
        if "certs" in self.case:
            tls_files = make_certs(self.dir, self.case["certs"])
        for name, u in self.case.get("upstreams", {}).items():
            if name not in self.up:
                self.up[name] = Upstream(name, u, self.port(name), u.get("addr", "127.0.0.1"), tls_files)
        for name, text in {**self.case.get("files", {}), **spec.get("files", {})}.items():
            self.write(name, text)
        for name, text in self.case.get("files_b64", {}).items():
            path = self.write(name, "")
            with open(path, "wb") as f:
                f.write(base64.b64decode(text))
        return self.write("Corefile", spec["corefile"])

    def start(self, spec):
        conf = self.prepare(spec)
        corefile = self.expand(spec["corefile"])
        env = {k: self.expand(str(v)) for k, v in spec.get("env", {}).items()}
        self.server = Server(self.cmd, conf, self.port(), self.dir, env, os.path.join(self.dir, "server.log"))
        want = {self.port(n) for n in self.ports
                if n not in self.up and re.search(rf"\b{self.ports[n]}\b", corefile)
                and n not in spec.get("no_wait", self.case.get("no_wait", []))}
        return self.server.wait_ready(want)

    def run_configs(self):
        """Start the server once per Corefile and record whether it was accepted."""
        out = []
        for cfg in self.case["configs"]:
            for name in os.listdir(self.dir):
                path = os.path.join(self.dir, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            up = self.start(cfg)
            settle = time.monotonic() + cfg.get("settle", 0.2)
            while up and time.monotonic() < settle:
                time.sleep(0.02)
                up = self.server.proc.poll() is None
            row = {"step": cfg["name"], "result": "accepted" if up else "rejected"}
            for key in ("deviation", "note", "differs", "expect"):
                if key in cfg:
                    row[key] = cfg[key]
            if not up:
                row["exit_nonzero"] = self.server.proc.poll() not in (0, None)
                with open(self.server.log) as f:
                    lines = f.read().strip().splitlines()
                row["message"] = self.collapse(lines[-1])[:300] if lines else ""
            elif cfg.get("steps"):
                row["steps"] = [self.step(s) for s in cfg["steps"]]
            self.server.stop()
            self.server = None
            out.append(row)
        return out

    def run_steps(self):
        if "kube" in self.case:
            self.kube = Kube(self.testbed, self.dir)
            self.kube.apply(self.case["kube"].get("manifests", ""), self.case["kube"].get("mcs"))
        if not self.start(self.case):
            with open(os.path.join(self.dir, "server.log")) as f:
                tail = f.read()[-2000:]
            return [{"step": "start", "result": "server did not start", "message": self.collapse(tail)}]
        time.sleep(self.case.get("settle", 0))
        return [self.step(s) for s in self.case["steps"]]

    # -- steps ---------------------------------------------------------------
    def step(self, s):
        if isinstance(s, str):
            s = {"q": s}
        kind = next(k for k in ("q", "raw", "axfr", "http", "metrics", "observe", "stdout", "write", "remove",
                                "signal", "sleep", "wait", "up", "exited", "running", "apply", "delete",
                                "kube_stop", "kube_start") if k in s)
        what = ", ".join(s[kind]) if isinstance(s[kind], dict) else str(s[kind])
        if kind in ("apply", "delete"):
            what = ", ".join(re.findall(r"^kind: (\w+)", what, re.MULTILINE))
        row = {"step": s.get("name") or (what if kind == "q" else f"{kind} {what}")}
        try:
            row.update(getattr(self, "do_" + kind)(s) or {})
        except Exception as e:                             # noqa: BLE001  (goes into the record)
            row["error"] = f"{type(e).__name__}: {self.collapse(str(e))}"
        for key in ("deviation", "compare", "note", "differs", "expect"):
            if key in s:
                row[key] = s[key]
        return row

    def do_q(self, s):
        q = wire.Query(self.expand(s["q"]), self.expand(self.defaults))
        repeat = int(q.get("repeat", 1))
        if repeat > 1:
            return self.repeated(q, repeat)
        begin = time.monotonic()
        row = self.ask(q)
        if "slow" in q.opt:
            row["slow"] = time.monotonic() - begin >= float(q.opt["slow"])
        if "within" in q.opt:
            row["within"] = time.monotonic() - begin <= float(q.opt["within"])
        return row

    def omitted(self, rrs):
        """Leave out RRs that depend on the machine (case key `omit`), and write some texts in another way (`mask`)."""
        for rx, new in self.case.get("mask", []):
            rrs = [re.sub(rx, new, r) for r in rrs]
        rx = self.case.get("omit")
        return [r for r in rrs if not re.search(rx, r)] if rx else rrs

    def repeated(self, q, n):
        """Ask n times; record how often each outcome came back, not the order."""
        what, tally = q.get("collect", "first"), {}
        for _ in range(n):
            row = self.ask(q)
            if what == "first":
                key = row.get("answer", ["-"])[0] if row.get("answer") else row.get("rcode", "timeout")
            else:
                key = row.get("rcode", "timeout")
            tally[key] = tally.get(key, 0) + 1
        return {"tally": {k: round(v / n, 2) for k, v in sorted(tally.items())}}

    def ask(self, q):
        dst = q.get("dst") or ("::1" if q.has("v6") else "127.0.0.1")
        port = self.port(q.get("port", "dns"))
        timeout = float(q.get("timeout", 4))
        m = q.message(self.keys)
        ring = dns.tsigkeyring.from_text(self.keys) if "tsig" in q.opt else None
        if "tsig" in q.opt and q.has("badtsig"):          # sign with a key the server does not share
            bad = {k: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" for k in self.keys}
            name, _, alg = q.opt["tsig"].partition(":")
            m.use_tsig(dns.tsigkeyring.from_text(bad), name, algorithm=alg or "hmac-sha256.")
        data = m.to_wire()
        mac = m.mac if ring else b""
        tls = wire.client_tls() if q.transport in ("tls", "grpc") else None
        local = 0
        if q.transport == "udp":
            try:
                reply, local = wire.udp_exchange(data, dst, port, q.get("src"), timeout, data[:2])
            except ConnectionRefusedError:
                return {"refused": True}
        elif q.transport in ("tcp", "tls"):
            got, how, local = wire.stream_exchange(
                struct.pack("!H", len(data)) + data, dst, port, q.get("src"), timeout,
                tls=tls if q.transport == "tls" else None, sni=q.get("sni", "localhost"))
            reply = got[0] if got else None
            if reply is None and how != "timeout":
                return {how: True}
        elif q.transport == "grpc":
            reply, status = wire.grpc_exchange(data, dst, port, tls if q.has("secure") else None,
                                               "localhost", timeout)
            if reply is None:
                return {"grpc_status": status}
        elif q.transport == "quic":
            r = dns.query.quic(m, dst, timeout, port, verify=False, server_hostname="localhost")
            reply = r.wire if hasattr(r, "wire") and r.wire else r.to_wire()
        else:
            kind = dns.query.HTTPVersion.H3 if q.transport == "https3" else dns.query.HTTPVersion.H2
            url = f"https://localhost:{port}{q.get('path', '/dns-query')}"
            r = dns.query.https(m, url, timeout=timeout, port=port, verify=False, post=not q.has("get"),
                                bootstrap_address=dst, http_version=kind)
            reply = r.wire if hasattr(r, "wire") and r.wire else r.to_wire()
        if reply is None:
            return {"timeout": True}
        row = wire.normalise(reply, m, ring, mac)
        if q.has("verify"):
            row["sigs"] = wire.check_signatures(
                reply, [os.path.join(self.dir, k + ".key") for k in q.get("verify").split(",")])
        if q.transport == "udp":
            limit = max(512, m.payload) if m.edns >= 0 else 512
            if len(reply) > limit:
                row["oversize"] = True
        for part in ("answer", "authority", "additional") if "answer" in row else ():
            row[part] = self.omitted(row[part])
            if local:
                row[part] = [re.sub(rf"\b{local}\b", "@CLIENTPORT@", self.collapse(t)) for t in row[part]]
        return row

    def do_raw(self, s):
        """Send bytes as they are. `raw` is hex, spaces allowed; `proto` udp or tcp (framed) or stream."""
        data = bytes.fromhex(re.sub(r"\s", "", s["raw"]))
        proto, timeout = s.get("proto", "udp"), s.get("timeout", 1.0)
        port = self.port(s.get("port", "dns"))
        if proto == "udp":
            reply, _ = wire.udp_exchange(data, "127.0.0.1", port, None, timeout)
            replies, how = ([reply] if reply is not None else []), ("ok" if reply is not None else "timeout")
        else:
            if proto == "tcp":
                data = struct.pack("!H", len(data)) + data
            replies, how, _ = wire.stream_exchange(data, "127.0.0.1", port, None, timeout,
                                                   replies=s.get("replies", 1))
        out = []
        for r in replies:
            row = wire.normalise(r)
            row["id"] = r[:2].hex()
            out.append(row)
        return {"end": how, "replies": out}

    def do_axfr(self, s):
        """Zone transfer over TCP: `axfr: zone`, optional `serial` for IXFR, `src`, `tsig`."""
        q = wire.Query(f"{s['axfr']} {'IXFR' if 'serial' in s else 'AXFR'} {s.get('opts', '')}")
        m = q.message(self.keys)
        if "serial" in s:
            m.authority.append(dns.rrset.from_text(q.name.rstrip(".") + ".", 0, "IN", "SOA",
                                                   f". . {s['serial']} 0 0 0 0"))
        data = m.to_wire()
        payload = struct.pack("!H", len(data)) + data
        timeout = s.get("timeout", 3.0)
        sock = socket.create_connection(("127.0.0.1", self.port(s.get("port", "dns"))), timeout,
                                        (q.get("src"), 0) if q.get("src") else None)
        rows, rcode, flags, end, rrs = 0, None, None, "closed", []
        with sock:
            sock.sendall(payload)
            while True:
                try:
                    head = wire.read_exact(sock, 2)
                    body = head and wire.read_exact(sock, struct.unpack("!H", head)[0])
                except TimeoutError:
                    end = "timeout"
                    break
                except ConnectionResetError:
                    break
                if not body:
                    break
                rows += 1
                r = dns.message.from_wire(body, one_rr_per_rrset=True, xfr=True, keyring=False)
                rcode, flags = dns.rcode.to_text(r.rcode()), wire.flag_text(r.flags)
                rrs += wire.rr_texts(r.answer)
                soas = [t for t in rrs if " SOA " in t]
                if rcode != "NOERROR" or (len(soas) >= 2 and rrs[-1] == soas[0]) or (len(rrs) == 1 and soas
                                                                                    and "serial" in s):
                    end = "complete"
                    break
        edge = [rrs[0].split()[3], rrs[-1].split()[3]] if rrs else []
        return {"rcode": rcode, "flags": flags, "end": end, "messages": rows > 0,
                "first_last": edge, "answer": self.omitted([self.collapse(t) for t in rrs])}

    def do_http(self, s):
        req = urllib.request.Request(self.expand(s["http"]), method=s.get("method", "GET"),
                                     headers=s.get("headers", {}))
        try:
            with urllib.request.urlopen(req, timeout=s.get("timeout", 3)) as r:
                status, body, head = r.status, r.read(), r.headers
        except urllib.error.HTTPError as e:
            status, body, head = e.code, e.read(), e.headers
        except (urllib.error.URLError, OSError):
            return {"http": "no answer"}
        row = {"status": status}
        if not s.get("no_body"):
            row["body"] = self.collapse(body.decode("utf-8", "replace"))[:400]
        for h in s.get("want_headers", []):
            row.setdefault("headers", {})[h.lower()] = head.get(h)
        return row

    def do_metrics(self, s):
        """Metric names with type and label names; optionally sample values
        (`values`: regexes, masked by `sub` pairs)."""
        with urllib.request.urlopen(self.expand(s["metrics"]), timeout=5) as r:
            text = r.read().decode()
        types, labels, values = {}, {}, []
        rx = re.compile(s.get("match", "^coredns_"))
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, typ = line.split()
                types[name] = typ
            elif line and not line.startswith("#"):
                m = re.match(r"([a-zA-Z0-9_:]+)(?:\{(.*)\})? (\S+)", line)
                base = re.sub(r"_(bucket|sum|count)$", "", m.group(1))
                base = base if base in types else m.group(1)
                labels.setdefault(base, set()).update(re.findall(r"(\w+)=\"", m.group(2) or ""))
                if any(re.search(v, line) for v in s.get("values", [])):
                    line = self.collapse(line)
                    for rx_from, to in s.get("sub", []):
                        line = re.sub(rx_from, to, line)
                    values.append(line)
        names = sorted(f"{n}{{{','.join(sorted(labels.get(n, set()) - {'le'}))}}} {t}"
                       for n, t in types.items() if rx.search(n))
        row = {"metrics": names}
        if "values" in s:
            row["values"] = sorted(values)
            if s.get("only_values"):
                del row["metrics"]
        return row

    def do_observe(self, s):
        """What the upstream received since the last look; health checks (`. NS`) are left out."""
        rows = [r for r in self.up[s["observe"]].take(s.get("match", "."))
                if s.get("health") or not r.startswith(". NS")]
        rows = [self.collapse(r) for r in rows]
        if s.get("count_only"):
            return {"count": len(rows)}
        return {"seen": sorted(rows) if s.get("sorted") else rows}

    def do_stdout(self, s):
        """Lines the server logged since the last look, filtered by regex and masked by `sub` pairs."""
        time.sleep(s.get("after", 0.2))
        with open(self.server.log, "rb") as f:
            f.seek(self.log_pos)
            text = f.read().decode("utf-8", "replace")
            self.log_pos = f.tell()
        out = []
        for line in text.splitlines():
            if re.search(s["stdout"], line):
                line = self.collapse(line)
                for rx, to in s.get("sub", []):
                    line = re.sub(rx, to, line)
                out.append(line)
        return {"lines": sorted(out) if s.get("sorted") else out}

    def do_write(self, s):
        for name, text in s["write"].items():
            self.write(name, text)

    def do_remove(self, s):
        os.unlink(os.path.join(self.dir, s["remove"]))

    def do_signal(self, s):
        self.server.proc.send_signal(getattr(signal, "SIG" + s["signal"]))

    def do_sleep(self, s):
        time.sleep(s["sleep"])

    def do_wait(self, s):
        """Repeat a query until its answer contains `until` (a regex over rcode and answers)."""
        q = wire.Query(self.expand(s["wait"]), self.defaults)
        end = time.monotonic() + s.get("max", 15)
        rx = re.compile(s.get("until", "NOERROR"))
        while time.monotonic() < end:
            row = self.ask(q)
            if rx.search(" ".join([row.get("rcode", "timeout"), *row.get("answer", [])])):
                return {"reached": True}
            time.sleep(0.2)
        return {"reached": False}

    def do_up(self, s):
        u = self.up[s["up"]]
        if "zones" in s:
            u.zones.update(load_zones({k: self.expand(v) for k, v in s["zones"].items()}))
        if s.get("do") == "stop":
            u.stop()
        elif s.get("do") == "start":
            u.start()

    def do_apply(self, s):
        self.kube.apply(s["apply"])

    def do_delete(self, s):
        self.kube.delete(s["delete"])

    def do_kube_stop(self, _):
        self.kube.stop()

    def do_kube_start(self, _):
        self.kube.start()

    def do_exited(self, s):
        end = time.monotonic() + s["exited"]
        while time.monotonic() < end and self.server.proc.poll() is None:
            time.sleep(0.1)
        code = self.server.proc.poll()
        return {"exited": code is not None, "nonzero": code not in (None, 0)}

    def do_running(self, s):
        return {"running": self.server.proc.poll() is None}
