//! Where a broker is, and as whom: `amqp://user:password@host:port/vhost`.

use std::str::FromStr;

/// The parts of an AMQP URI; what is absent is as RabbitMQ's specification of it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uri {
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) vhost: String,
}

impl FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text
            .strip_prefix("amqp://")
            .ok_or("it begins with amqp://, as in amqp://guest:guest@127.0.0.1:5672/")?;
        let (authority, vhost) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), "/".to_owned()),
            Some((authority, vhost)) => (authority, decoded(vhost)?),
        };
        let (who, address) = authority
            .rsplit_once('@')
            .unwrap_or(("guest:guest", authority));
        let (user, password) = who.split_once(':').unwrap_or((who, "guest"));
        if address.is_empty() {
            return Err("it names no host, as in amqp://guest:guest@127.0.0.1:5672/".to_owned());
        }
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self {
            address: if has_port {
                address.to_owned()
            } else {
                format!("{address}:5672")
            },
            user: decoded(user)?,
            password: decoded(password)?,
            vhost,
        })
    }
}

/// Without percent signs: RFC 3986, section 2.1.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = more
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes
            .push(byte.ok_or_else(|| format!("`{text}`: % is followed by two digits, as in %2f"))?);
        rest = &more[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("`{text}` is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_the_default() {
        let local = Uri {
            address: "127.0.0.1:5672".to_owned(),
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
        };
        for text in [
            "amqp://guest:guest@127.0.0.1:5672/",
            "amqp://guest@127.0.0.1",
            "amqp://127.0.0.1/%2f",
        ] {
            assert_eq!(text.parse::<Uri>().as_ref(), Ok(&local), "{text}");
        }
        let all: Uri = "amqp://a%40b:p%3Aq@h:1/v%2fw".parse().unwrap();
        let parts = [all.address, all.user, all.password, all.vhost];
        assert_eq!(parts, ["h:1", "a@b", "p:q", "v/w"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        for (text, word) in [
            ("127.0.0.1:5672", "amqp://"),
            ("amqp://guest:guest@/", "no host"),
            ("amqp://h/%2", "%2f"),
            ("amqp://h/%ff", "UTF-8"),
        ] {
            let problem = text.parse::<Uri>().unwrap_err();
            assert!(problem.contains(word), "{text}: {problem}");
        }
    }
}
