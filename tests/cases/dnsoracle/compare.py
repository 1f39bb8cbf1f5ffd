"""Compares a recorded (golden) step with what another server did.

Rules, in short (README.md has the reasons):
  * names compare without regard to case unless the query says +case
  * RR order counts only with +ordered, and then in the answer section
  * TTLs count exactly, with +ttl=ignore not at all, with +ttl=near:N within N s
  * SOA serials count unless +serial=ignore
  * the AA flag counts unless +anyaa; that also lets the AD flag of queries seen upstream go
  * an OPT in the reply to a query without one is never asked for (RFC 6891 7)
  * when both replies are truncated only header and sizes are compared
  * +ignore=FIELD leaves a field out (a bare +ignore= takes a default back;
    FIELD do means the DO bit of the reply);  `deviation` in a step makes a mismatch
    tolerated (the reference itself is believed to be wrong there), and so does `differs`,
    which says that the server under test means to differ
"""
import re

from .wire import Query

SECTIONS = ("answer", "authority", "additional")
RR = re.compile(r"^(\S+) (\d+) (\S+) (\S+) ?(.*)$")
SKIP = {"step", "deviation", "compare", "note", "message", "differs", "expect"}


def rules_of(golden, defaults):
    text = golden["step"]
    line = " ".join(w for w in (defaults + " " + text + " " + golden.get("compare", "")).split())
    words = line.split()
    try:
        return Query(" ".join(["x", "A"] + [w for w in words if w.startswith("+")]))
    except Exception:                                      # noqa: BLE001
        return Query("x A")


def soften(rr, q):
    """One RR text reduced to what has to match; returns (text, ttl)."""
    m = RR.match(rr)
    if not m:
        return rr, None
    name, ttl, cls, typ, rdata = m.groups()
    if not q.has("case"):
        name = name.lower()
        if typ not in ("TXT", "HINFO", "CAA", "URI", "NAPTR", "DNSKEY", "DS", "RRSIG", "CDS", "CDNSKEY"):
            rdata = rdata.lower()
    if typ == "SOA" and q.get("serial") == "ignore":
        w = rdata.split()
        w[2] = "SERIAL"
        rdata = " ".join(w)
    if typ == "NSEC":
        w = rdata.split()
        rdata = " ".join(w[:1] + sorted(w[1:]))
    return f"{name} {cls} {typ} {rdata}", int(ttl)


def compare_section(want, have, q, ordered=False):
    mode = str(q.get("ttl", "exact"))
    a, b = [soften(r, q) for r in want], [soften(r, q) for r in have]
    if not ordered:
        a, b = sorted(a), sorted(b)
    if [x[0] for x in a] != [x[0] for x in b]:
        return False
    if mode == "ignore":
        return True
    tol = int(mode.partition(":")[2] or 2) if mode.startswith("near") else 0
    return all(abs((x[1] or 0) - (y[1] or 0)) <= tol for x, y in zip(a, b))


def sends_edns(q):
    return any(k in q.opt for k in ("do", "bufsize", "edns", "ednsflags", "nsid", "ecs", "cookie", "padding")) \
        or bool(q.multi["opt"])


def flags_match(a, b, q):
    """Header flags, with +anyaa without regard to AA."""
    drop = {"aa"} if q.has("anyaa") else set()
    return set(a.split()) - drop == set(b.split()) - drop


def strip_flags(seen):
    """An observed upstream query without its AD flag."""
    parts = seen.split(" | ")
    if len(parts) > 1:
        parts[1] = " ".join(w for w in parts[1].split() if w != "ad")
    return " | ".join(parts)


def compare_step(golden, actual, defaults=""):
    """List of (field, wanted, got) differences."""
    q = rules_of(golden, defaults)
    ignore = set(q.multi["ignore"]) if "" not in q.multi["ignore"] else set()
    truncated = "tc" in golden.get("flags", "").split() and "tc" in actual.get("flags", "").split()
    diffs = []
    for key in sorted(set(golden) | set(actual)):
        if key in SKIP or key in ignore:
            continue
        a, b = golden.get(key), actual.get(key)
        if key in SECTIONS and isinstance(a, list) and isinstance(b, list):
            if truncated and not q.has("strict"):
                continue
            if not compare_section(a, b, q, key == "answer" and q.has("ordered")):
                diffs.append((key, a, b))
        elif key == "seen" and a is not None and b is not None and q.has("anyaa"):
            if [strip_flags(x) for x in a] != [strip_flags(x) for x in b]:
                diffs.append((key, a, b))
        elif key == "flags" and a is not None and b is not None:
            if not flags_match(a, b, q):
                diffs.append((key, a, b))
        elif key == "edns" and a and not b and not sends_edns(q):
            continue
        elif key == "edns" and a and b and "do" in ignore:
            if dict(a, do=0) != dict(b, do=0):
                diffs.append((key, a, b))
        elif key == "tally" and a and b:
            if "share" in q.opt:
                same = all(abs(a.get(k, 0) - b.get(k, 0)) <= float(q.get("share")) for k in set(a) | set(b))
            else:
                same = set(a) == set(b)
            if not same:
                diffs.append((key, a, b))
        elif key == "replies" and a and b and len(a) == len(b):
            for i, (x, y) in enumerate(zip(a, b)):
                diffs += [(f"replies[{i}].{f}", w, g) for f, w, g in compare_step(
                    dict(x, step=golden["step"], compare=golden.get("compare", "")), dict(y, step=""), defaults)]
        elif key == "steps" and a and b and len(a) == len(b):
            for x, y in zip(a, b):
                diffs += [(f"{x['step']}: {f}", w, g) for f, w, g in compare_step(x, y, defaults)]
        elif a != b:
            diffs.append((key, a, b))
    return diffs


def judge(golden, actual, defaults=""):
    """The verdict on one step, `passed`, `failed` or `skipped`, and the differences behind it.

    A step that means to differ (`differs`) passes as well where it does not; with `expect` it has to answer what
    that says, in the fields that it names, and is then never skipped.
    """
    expect = actual.get("expect")
    if expect:
        golden = {**golden, **expect}
    diffs = compare_step(golden, actual, defaults)
    if not diffs:
        return "passed", diffs
    if not expect and ("deviation" in golden or "differs" in actual):
        return "skipped", diffs
    return "failed", diffs
