"""Self-tests of the harness: query lines, comparison rules, scripted upstreams, the lists of cases."""
import json
import os
import socket

import dns.message
import dns.query

from dnsoracle import lists
from dnsoracle.__main__ import find_cases, golden_path, load
from dnsoracle.compare import compare_step, judge
from dnsoracle.upstream import Upstream
from dnsoracle.wire import Query, normalise

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIFFERENCES = os.path.join(HERE, "..", "..", "docs", "differences.md")


def step(answer, line="x. A", flags="aa rd", **more):
    return {"step": line, "rcode": "NOERROR", "flags": flags, "question": "echo", "answer": answer,
            "authority": [], "additional": [], "edns": None, **more}


def test_query_line():
    q = Query("version.bind CH TXT +tcp +opt=65001:beef", "+do")
    assert (q.name, q.rdclass, q.rdtype, q.transport) == ("version.bind", "CH", "TXT", "tcp")
    m = q.message({})
    assert m.ednsflags & 0x8000 and m.options[0].to_wire() == b"\xbe\xef"
    assert Query("example.org ANY").rdtype == "ANY"


def test_order_and_case_do_not_count_by_default():
    a = step(["A.x. 60 IN A 203.0.113.1", "a.x. 60 IN A 203.0.113.2"])
    b = step(["a.x. 60 IN A 203.0.113.2", "a.x. 60 IN A 203.0.113.1"])
    assert compare_step(a, b) == []
    assert compare_step(dict(a, step="x. A +ordered"), b)
    assert compare_step(dict(a, step="x. A +case"), b)


def test_ttl_rules():
    a, b = step(["x. 60 IN A 203.0.113.1"]), step(["x. 58 IN A 203.0.113.1"])
    assert compare_step(a, b)
    assert compare_step(a, b, "+ttl=near:2") == [] == compare_step(a, b, "+ttl=ignore")


def test_differences_are_found():
    a = step(["x. 60 IN A 203.0.113.1"])
    assert compare_step(a, step(["x. 60 IN A 203.0.113.9"]))
    assert compare_step(a, dict(a, rcode="SERVFAIL"))
    assert compare_step(a, dict(a, flags="rd"))
    assert compare_step(a, dict(a, flags="rd"), "+anyaa") == []
    assert compare_step(a, {"timeout": True})
    assert compare_step(a, {})


def test_opt_is_only_asked_for_when_sent():
    opt = {"udp": 4096, "do": True}
    a, b = step([], edns=opt), step([])
    assert compare_step(a, b) == []
    assert compare_step(dict(a, step="x. A +do"), b)


def test_serials():
    a = step(["x. 5 IN SOA n. h. 1 2 3 4 5"])
    b = step(["x. 5 IN SOA n. h. 9 2 3 4 5"])
    assert compare_step(a, b) and compare_step(a, b, "+serial=ignore") == []


def test_upstream_rules_and_log():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    up = Upstream("up", {"zones": {"z.test": "@ 60 IN SOA n h 1 2 3 4 5\n@ 60 IN NS n\nw 60 IN A 203.0.113.7\n"},
                         "rules": [{"match": "^once", "times": 1, "rcode": "SERVFAIL"},
                                   {"match": "^once", "answer": ["{qname} 5 IN A 203.0.113.1"]}]}, port)
    try:
        def ask(name):
            q = dns.message.make_query(name, "A")
            return normalise(dns.query.udp(q, "127.0.0.1", port=port, timeout=2).to_wire(), q)
        assert ask("once.test.")["rcode"] == "SERVFAIL"
        assert ask("once.test.")["answer"] == ["once.test. 5 IN A 203.0.113.1"]
        assert ask("w.z.test.")["answer"] == ["w.z.test. 60 IN A 203.0.113.7"]
        assert ask("q.z.test.")["rcode"] == "NXDOMAIN"
        assert ask("other.example.")["rcode"] == "REFUSED"
        seen = up.take("once")
        assert len(seen) == 2 and seen[0] == "once.test. A IN | QUERY rd | udp from 127.0.0.1"
    finally:
        up.stop()


def test_verdicts():
    a, b = step(["x. 60 IN A 203.0.113.1"]), step(["x. 60 IN A 203.0.113.9"])
    assert judge(a, a)[0] == "passed" and judge(a, b)[0] == "failed"
    assert judge(dict(a, deviation="odd"), b)[0] == "skipped"
    assert judge(a, dict(b, differs="on purpose"))[0] == "skipped"
    ours = {"differs": "on purpose", "expect": {"answer": ["x. 60 IN A 203.0.113.9"]}}
    assert judge(a, dict(b, **ours))[0] == "passed"
    assert judge(a, dict(a, **ours))[0] == "failed"
    assert judge(dict(a, deviation="odd"), dict(a, **ours))[0] == "failed"


def test_what_a_corefile_needs():
    corefile = """
        (common) {
          errors # log
          import more.conf
        }
        .:53 example.org {
          import common
          cache 30 {
            health  # a word of the block, no directive
          }
          template IN A { # whoami
            answer "{{ .Name }} file"
          }
        }"""
    assert lists.directives(corefile) == {"errors", "cache", "template"}
    assert lists.directives(".:53\nwhoami\nlog") == {"whoami", "log"}
    assert lists.needs({"corefile": corefile}, {"files": {"more.conf": "hosts a.txt", "db.x": "file x"}}) == {
        "errors", "cache", "template", "hosts"}


def all_cases():
    return [load(p) for p in find_cases([os.path.join(HERE, "corpus")])]


def test_lists_are_up_to_date():
    want = lists.texts(HERE, all_cases())
    for name, text in zip(("ready.txt", "waiting.txt"), want):
        with open(os.path.join(HERE, name)) as f:
            assert f.read() == text, f"{name}: run `python -m dnsoracle sort .`"


def test_cases_and_golden_answers_belong_together():
    for case in all_cases():
        with open(golden_path(case["path"])) as f:
            golden = json.load(f)
        rows = case.get("configs", case.get("steps"))
        assert len(golden) == len(rows), case["name"]
        if "configs" in case:
            names = [c["name"] for c in rows]
            assert names == [g["step"] for g in golden] and len(set(names)) == len(names), case["name"]


def test_purposeful_differences_stand_in_the_table():
    with open(DIFFERENCES) as f:
        table = [line for line in f if line.startswith("|")]
    for case in all_cases():
        for s in case.get("configs", case.get("steps")):
            if isinstance(s, dict) and ("differs" in s or "expect" in s):
                assert "differs" in s, f"{case['name']}: `expect` without `differs`"
                assert any(f"`{case['name']}`" in line for line in table), f"{case['name']} is not in docs/differences.md"
