//! Answers, as the text that is sent.

use serde::Serialize;

use crate::code::Code;
use crate::request::RequestId;

/// The answer to a request. It is kept as text, because that is what is sent, and what is stored with an idempotency
/// key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The members of the JSON object, without `request_id`.
    members: String,
    code: Option<Code>,
}

impl Answer {
    /// Makes the answer to a request that succeeded.
    ///
    /// # Panics
    /// The data cannot be written as JSON, such as a map whose keys are not texts.
    #[must_use]
    pub fn success(data: &impl Serialize) -> Self {
        let mut members = Vec::with_capacity(512);
        members.extend_from_slice(b"\"success\":true,\"data\":");
        write_json(&mut members, data);
        Self {
            members: into_text(members),
            code: None,
        }
    }

    /// Makes the answer to a request that failed.
    #[must_use]
    pub fn failure(code: Code, error: &str) -> Self {
        let mut members = format!("\"success\":false,\"code\":\"{code}\",\"error\":").into_bytes();
        write_json(&mut members, error);
        Self {
            members: into_text(members),
            code: Some(code),
        }
    }

    /// Adds data, such as the results of a batch, to a failure.
    #[must_use]
    pub fn with_data(self, data: &impl Serialize) -> Self {
        let mut members = self.members.into_bytes();
        members.extend_from_slice(b",\"data\":");
        write_json(&mut members, data);
        Self {
            members: into_text(members),
            code: self.code,
        }
    }

    /// Returns the code of a failure; `None` is success.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.code
    }

    /// Returns the line to send, with its end.
    #[must_use]
    pub fn line(&self, id: Option<&RequestId>) -> String {
        match id {
            Some(id) => format!("{{\"request_id\":{id},{}}}\n", self.members),
            None => format!("{{{}}}\n", self.members),
        }
    }

    /// Returns the answer as the value of a member of another one, as in the results of a batch.
    #[must_use]
    pub(crate) fn object(&self) -> Box<serde_json::value::RawValue> {
        let object = format!("{{{}}}", self.members);
        serde_json::value::RawValue::from_string(object).expect("an answer is JSON")
    }

    /// Returns the text to store.
    pub(crate) fn stored(&self) -> &str {
        &self.members
    }

    /// Makes an answer of a stored text.
    pub(crate) fn from_stored(members: &str) -> Self {
        #[derive(serde::Deserialize)]
        struct Stored {
            code: Option<Code>,
        }
        let code = if members.starts_with("\"success\":true") {
            None
        } else {
            serde_json::from_str(&format!("{{{members}}}"))
                .map_or(Some(Code::Internal), |stored: Stored| stored.code)
        };
        Self {
            members: members.to_owned(),
            code,
        }
    }
}

impl From<issue_store::Error> for Answer {
    fn from(error: issue_store::Error) -> Self {
        Self::failure(error.code().into(), &error.to_string())
    }
}

fn write_json(text: &mut Vec<u8>, data: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(text, data).expect("the data of answers can be written as JSON");
}

fn into_text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_line_of_json_with_the_id_of_its_request() {
        let id: RequestId = serde_json::from_str("\"a\\n1\"").unwrap();
        let answer = Answer::success(&["one\ntwo"]);
        assert_eq!(
            answer.line(Some(&id)),
            "{\"request_id\":\"a\\n1\",\"success\":true,\"data\":[\"one\\ntwo\"]}\n"
        );
        let failure = Answer::failure(Code::NotFound, "no \"x\"").with_data(&1);
        assert_eq!(
            failure.line(None),
            "{\"success\":false,\"code\":\"not_found\",\"error\":\"no \\\"x\\\"\",\"data\":1}\n"
        );
    }

    #[test]
    fn a_stored_answer_is_the_same_again() {
        for answer in [
            Answer::success(&1),
            Answer::failure(Code::Cycle, "round").with_data(&2),
        ] {
            assert_eq!(Answer::from_stored(answer.stored()), answer);
        }
    }
}
