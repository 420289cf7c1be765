//! Reads the query of a request: `EIO=4&transport=polling&sid=…`.

/// The parameters of a request that the server uses. Others are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    /// The version of Engine.IO.
    pub(crate) version: Option<&'a str>,
    pub(crate) transport: Option<TransportName>,
    /// The session.
    pub(crate) session: Option<&'a str>,
}

/// The transport that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransportName {
    Polling,
    WebSocket,
}

impl<'a> Query<'a> {
    /// Parses a query. The values that are used need no escapes, so none are resolved.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut query = Self::default();
        for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "EIO" => query.version = Some(value),
                "sid" => query.session = Some(value),
                "transport" => {
                    query.transport = match value {
                        "polling" => Some(TransportName::Polling),
                        "websocket" => Some(TransportName::WebSocket),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameters_are_ignored() {
        let query = Query::parse("t=abc&EIO=4&b64&key=v&transport=polling&sid=x");
        let expected = Query {
            version: Some("4"),
            transport: Some(TransportName::Polling),
            session: Some("x"),
        };
        assert_eq!(query, expected);
        assert_eq!(Query::parse("transport=abc"), Query::default());
    }
}
