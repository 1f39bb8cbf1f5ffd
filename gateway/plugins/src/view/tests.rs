//! Which block takes a query.

use engine::testing::Bench;
use engine::{Descriptor, Exchange, Plugin, Step};

/// Answers with its words, and with metadata where a word is a label.
#[derive(Debug)]
struct Reply(String, engine::Metadata);

impl Plugin for Reply {
    fn query(&self, x: &mut Exchange) -> Step {
        let mut text = self.0.clone();
        if self.0.contains('/') {
            text.clear();
            if self.1.value(x, &self.0, &mut text).is_none() {
                text.push('-');
            }
        }
        let name = x.request().name.clone();
        x.answer_mut().txt(&name, 1, 0, text.as_bytes());
        Step::Done
    }
}

/// Its entry.
static REPLY: Descriptor = Descriptor {
    name: "reply",
    readme: "",
    setup: |setup| {
        let word = setup.directive().words().one()?.text.clone();
        let metadata = setup.metadata();
        setup.install(Reply(word, metadata));
        Ok(())
    },
};

/// Turns metadata on.
static METADATA: Descriptor = Descriptor {
    name: "metadata",
    readme: "",
    setup: |setup| {
        setup.enable_metadata(setup.zones().to_vec());
        Ok(())
    },
};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&METADATA, &REPLY, &super::PLUGIN];

/// What answers a question.
fn who(bench: &Bench, line: &str) -> String {
    let shown = bench.now(line);
    shown.split('"').nth(1).unwrap_or(&shown).to_owned()
}

#[test]
fn the_first_block_whose_conditions_hold_takes_the_query_then_those_of_shorter_zones() {
    let mut bench = Bench::new(
        CHAIN,
        r"example.org {
            view lan {
                expr incidr(client_ip(), '127.1.0.0/16')
            }
            reply lan
        }
        example.org {
            view typed {
                expr type() in ['TXT', 'MX'] || name() matches '^special\\..*'
                expr do()
            }
            reply typed
        }
        example.org {
            reply rest
        }
        only.test {
            view only {
                expr client_ip() == '127.2.2.2'
            }
            reply only
        }
        sub.only.test {
            view sub {
                expr client_ip() == '127.3.3.3'
            }
            reply sub
        }
        test {
            view always
            reply always
        }",
    );
    for (client, line, want) in [
        ("127.0.0.1", "www.example.org", "rest"),
        ("127.0.0.1", "www.example.org MX +do", "typed"),
        ("127.0.0.1", "www.example.org MX", "rest"),
        ("127.0.0.1", "special.example.org +do", "typed"),
        ("127.1.2.3", "special.example.org +do", "lan"),
        ("::ffff:127.1.2.3", "special.example.org +do", "lan"),
        ("2001:db8::1", "www.example.org", "rest"),
        ("127.2.2.2", "www.only.test", "only"),
        ("127.2.2.2", "www.sub.only.test", "only"),
        ("127.3.3.3", "www.sub.only.test", "sub"),
        ("127.3.3.3", "www.only.test", "always"),
        ("127.0.0.1", "www.other", "REFUSED rd"),
    ] {
        bench.from(client.parse().unwrap());
        assert_eq!(who(&bench, line), want, "{line} from {client}");
    }
}

#[test]
fn the_name_is_metadata_and_metadata_decides() {
    let corefile = "a.test {
            metadata
            view inner {
                expr metadata('view/name') == 'inner'
            }
            reply view/name
        }
        b.test {
            view other {
                expr metadata('view/name') == ''
            }
            reply view/name
        }";
    let bench = Bench::new(CHAIN, corefile);
    assert_eq!(who(&bench, "x.a.test"), "inner");
    assert_eq!(who(&bench, "x.b.test"), "-");
    assert_eq!(bench.gateway.live().sites()[0].routes.all()[0].view, "inner");
}

#[test]
fn wrong_views_are_refused() {
    for (view, wrong) in [
        (
            "view",
            "Wrong argument count or unexpected line ending after 'view' (write: view NAME { expr EXPRESSION })",
        ),
        ("view a b", "Wrong argument count: 'b' is one too many"),
        (
            "view a {\n expr\n }",
            "Wrong argument count or unexpected line ending after 'expr' (write: expr EXPRESSION)",
        ),
        ("view a {\n foo true\n }", "'foo' is not a property (known: expr)"),
        ("view a\n view b", "'view' this plugin can only be used once per Server Block"),
        ("view a {\n expr nofunc()\n }", "unknown function nofunc in the expression nofunc()"),
        (
            "view a {\n expr name()\n }",
            "the expression gives a value of type string, which is never true (compare it with something, as in type() == 'A')",
        ),
        (
            "view a {\n expr type() == 1\n }",
            "'==' does not go between the types string and int in the expression type() == 1",
        ),
        (
            "view a {\n expr incidr(client_ip(), '198.51.100.0/33')\n }",
            "'198.51.100.0/33' is no network such as",
        ),
    ] {
        let text = Bench::refused(CHAIN, &format!(". {{\n {view}\n reply x\n}}\n"));
        assert!(text.starts_with(&format!("plugin/view: {wrong}")), "{view}: {text}");
    }
}

#[test]
fn what_is_not_true_is_not_this_block() {
    crate::shared::testing::logged();
    for expression in [
        "[1, true][0]",
        "['true', true][0]",
        "[nil, true][0]",
        "incidr(name(), '127.0.0.0/8')",
        "incidr(client_ip(), name())",
        "name() matches (name() + '(')",
        "[true][5]",
        "false",
    ] {
        let corefile = format!(
            "test {{\n view odd {{\n expr {expression}\n }}\n reply odd\n}}\ntest {{\n reply rest\n}}\n"
        );
        assert_eq!(who(&Bench::new(CHAIN, &corefile), "a.test"), "rest", "{expression}");
    }
    assert_eq!(crate::shared::testing::logged(), [""; 0]);
}

#[test]
fn expressions_are_joined_from_their_words() {
    for (expression, want) in [
        ("type()   in   ['A',\t'MX']", "lan"),
        // The words of a quote are joined as they are, and its quotes go.
        ("\"type() == 'A'\"", "lan"),
        ("\"any(['A', 'MX'], # == type())\"", "lan"),
        ("type() == \"'A'\"", "lan"),
        // Spaces within a string are one space.
        ("'a  b' == 'a b'", "lan"),
        ("\"'a  b' == 'a b'\"", "rest"),
        // A backslash is one, for the expression to read.
        (r"name() matches '^a\\.test\\.$'", "lan"),
        (r"'\\' == `\`", "lan"),
        // What stands behind a number sign is a comment.
        ("type() == 'A' # && false", "lan"),
    ] {
        let corefile = format!(
            "test {{\n view lan {{\n expr {expression}\n }}\n reply lan\n}}\ntest {{\n reply rest\n}}\n"
        );
        assert_eq!(who(&Bench::new(CHAIN, &corefile), "a.test"), want, "{expression}");
    }
    let text = Bench::refused(CHAIN, "test {\n view a {\n expr any(['A'], # == type())\n }\n}\n");
    assert!(text.contains("the expression ends too soon"), "{text}");
}
