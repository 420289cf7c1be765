//! The texts with which each user asks a server for admission: `auth`, header fields and query, with names of its own.

use load::plan::Invalid;
use serde_json::Value;
use traffic::{Encoding, Names, Template, Values};

use super::{in_conversation, is_named, step};
use crate::protocol::transport::{Access, Endpoint};
use crate::settings::{AUTH, HEADERS, Settings, check_field};

/// The texts of each user.
#[derive(Debug)]
pub(crate) struct UserAccess {
    auth: Template,
    fields: Template,
    query: Template,
}

impl UserAccess {
    /// Prepares the texts of a plan; `None` if all users have the same, and no query of the plan. `names` are those that a user
    /// has before it connects.
    ///
    /// # Errors
    /// The first field that is invalid, with the remedy.
    pub(super) fn new(
        settings: &Settings,
        query: Option<&str>,
        names: &Names,
    ) -> Result<Option<Self>, Invalid> {
        let columns = &names.columns;
        let names = &Names {
            columns: Vec::new(),
            values: names.values.clone(),
        };
        let auth = settings.auth_object()?;
        let mut access = Self {
            auth: Template::default(),
            fields: Template::default(),
            query: Template::default(),
        };
        if !auth.is_empty() {
            check_names(AUTH, &auth, columns)?;
            let auth = serde_json::from_str::<Value>(&auth).unwrap_or_default();
            step::append(AUTH, &auth, names, &mut access.auth)?;
        }
        for field in &settings.headers {
            check_names(HEADERS, field, columns)?;
            let (name, value) = check_field(field)?;
            let line = format!("{name}: {value}\r\n");
            let line = Template::parse(HEADERS, line.as_bytes(), names, Encoding::Field)?;
            access.fields.append(line);
        }
        let in_query = in_conversation("query");
        if let Some(query) = query {
            check_names(&in_query, query, columns)?;
            let is_legal = |byte: u8| byte.is_ascii_graphic() && !b"#\"<>\\^`|".contains(&byte);
            if query.is_empty() || query.starts_with('?') || !query.bytes().all(is_legal) {
                let problem = format!(
                    "`{query}` is not a query: write it as it is sent, such as token={{{{user.token}}}}&v=1, without ? and blanks"
                );
                return Err(Invalid::new(in_query, problem));
            }
            access.query = Template::parse(&in_query, query.as_bytes(), names, Encoding::Path)?;
        }
        let texts = [
            (AUTH, &access.auth),
            (HEADERS, &access.fields),
            (&in_query, &access.query),
        ];
        if let Some((field, _)) = texts.iter().find(|(_, text)| text.uses_number()) {
            let problem =
                "has `{id}`, the number of a message, and a connection is none: use {{user}}";
            return Err(Invalid::new(*field, problem));
        }
        let is_same = query.is_none() && texts.iter().all(|(_, text)| text.is_fixed());
        Ok((!is_same).then_some(access))
    }

    /// Returns a server as a user with these values reaches it.
    pub(crate) fn endpoint(&self, server: &Endpoint, values: Values<'_>) -> Endpoint {
        let query = [server.query.clone(), text(&self.query, values)];
        let query = query.into_iter().filter(|part| !part.is_empty());
        Endpoint {
            query: query.collect::<Vec<_>>().join("&"),
            access: Access {
                fields: text(&self.fields, values),
                auth: self.auth(values),
                ..server.access.clone()
            },
            ..server.clone()
        }
    }

    /// Returns the object that goes with a user's connection to the namespace.
    pub(crate) fn auth(&self, values: Values<'_>) -> String {
        text(&self.auth, values)
    }
}

fn text(template: &Template, values: Values<'_>) -> String {
    String::from_utf8_lossy(&template.bytes(values)).into_owned()
}

/// Refuses the next row, which only messages take.
fn check_names(field: &str, text: &str, columns: &[String]) -> Result<(), Invalid> {
    let named = columns.iter().find(|column| is_named(text, column));
    let Some(column) = named else {
        return Ok(());
    };
    let problem = format!(
        "`{{{{{column}}}}}` is of the next row, which only messages take: write {{{{user.{column}}}}}, the row of the user"
    );
    Err(Invalid::new(field, problem))
}
