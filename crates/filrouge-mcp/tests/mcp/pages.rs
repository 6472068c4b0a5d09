//! Page sizes, cuts and cursors; resources, the prompt, completions.

use std::sync::Arc;

use filrouge_mcp::{CallerSession, Corpus};
use filrouge_types::{Clock, SystemClock};
use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
    Reference, ResourceContents,
};
use serde_json::{Value, json};

use crate::artificial_history::{corpus, library, library_with_answer};
use crate::clients::{Client, answer, call, client, client_of, refusal};

/// All pages of a call's answer.
async fn all_pages(client: &Client, tool: &str, mut arguments: Value) -> Vec<Value> {
    let mut pages = Vec::new();
    loop {
        let (page, text) = answer(client, tool, arguments.clone()).await;
        let next = page["nextCursor"].clone();
        pages.push(page);
        match next.as_str() {
            None => return pages,
            Some(cursor) => {
                let quoted = serde_json::to_string(cursor).unwrap();
                assert!(
                    text.contains(&quoted),
                    "the text does not name the cursor: {text}"
                );
            }
        }
        arguments["cursor"] = next;
        assert!(pages.len() < 5_000, "the pages do not end");
    }
}

/// A long text in several scripts.
fn long_text() -> String {
    (0..400)
        .map(|n| format!("Zeile {n}: naïve 漢字 🙂\n"))
        .collect()
}

#[tokio::test]
async fn a_long_text_is_cut_and_continues() {
    let text = long_text();
    let client = client(library_with_answer("amber", &text)).await;
    let request = json!({ "sessionID": "amber-1", "maxChars": 700 });
    let mut read = String::new();
    let pages = all_pages(&client, "get_session_history", request).await;
    for page in &pages {
        for message in page["messages"].as_array().unwrap() {
            for part in message["parts"].as_array().unwrap() {
                if message["id"] == "m2" && part["type"] == "text" {
                    read.push_str(part["text"].as_str().unwrap());
                }
            }
        }
    }
    assert_eq!(read, text);
    assert!(pages.len() > 5);
}

#[tokio::test]
async fn concatenated_pages_equal_the_document() {
    let client = client(library_with_answer("amber", &long_text())).await;
    for format in ["md", "html", "json"] {
        let one_page = json!({ "sessionID": "amber-1", "format": format, "maxChars": 1_000_000 });
        let (document, _) = answer(&client, "export_session", one_page).await;
        assert_eq!(document["nextCursor"], Value::Null);
        let document = document["content"].as_str().unwrap();
        let request = json!({ "sessionID": "amber-1", "format": format, "maxChars": 999 });
        let pages = all_pages(&client, "export_session", request).await;
        let joined: String = pages
            .iter()
            .map(|page| page["content"].as_str().unwrap())
            .collect();
        assert_eq!(joined, document, "{format}");
        assert!(pages.len() > 5);
        let total = pages[0]["totalChars"].as_u64().unwrap();
        assert_eq!(total, document.chars().count() as u64);
        assert!(document.contains("Zeile 399"));
    }
    let other_format =
        json!({ "sessionID": "amber-1", "format": "html", "cursor": "md.5.0.amber-1" });
    assert_eq!(
        refusal(&client, "export_session", other_format).await["code"],
        "invalid_argument"
    );
    let old_cursor = json!({ "sessionID": "amber-1", "cursor": "md.5.0.amber-1" });
    let (page, _) = answer(&client, "export_session", old_cursor).await;
    assert!(page["notices"][0].as_str().unwrap().contains("has changed"));
    // A cursor of another session, one after the end, and a malformed one.
    for (session, cursor, expected) in [
        ("amber-2", "md.5.0.amber-1", "amber-1"),
        ("amber-1", "md.999999999.0.amber-1", "after the end"),
        ("amber-1", "md.5.0", "not a cursor"),
    ] {
        let request = json!({ "sessionID": session, "cursor": cursor });
        let refused = refusal(&client, "export_session", request).await;
        let message = refused["message"].as_str().unwrap();
        assert!(
            refused["code"] == "invalid_argument" && message.contains(expected),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_pdf_is_attached() {
    let request = json!({ "sessionID": "amber-1", "format": "pdf" });
    let printed = |print: fn(&str) -> Result<Vec<u8>, String>| Corpus {
        print_pdf: Some(Arc::new(print)),
        ..corpus(library("amber"))
    };
    fn print(html: &str) -> Result<Vec<u8>, String> {
        Ok(format!("%PDF-{}", html.contains("The word is amber.")).into_bytes())
    }
    fn fails(_: &str) -> Result<Vec<u8>, String> {
        Err("no browser".to_owned())
    }
    let client = client_of(printed(print), CallerSession::default()).await;
    let result = call(&client, "export_session", request.clone()).await;
    let file = serde_json::to_value(&result.content[1]).unwrap();
    assert_eq!(file["resource"]["mimeType"], "application/pdf", "{file}");
    assert_eq!(file["resource"]["uri"], "session://amber-1");
    // `%PDF-true` in base64.
    assert_eq!(file["resource"]["blob"], "JVBERi10cnVl");
    for (corpus, why) in [
        (printed(fails), "no browser"),
        (corpus(library("amber")), "prints no PDF"),
    ] {
        let client = client_of(corpus, CallerSession::default()).await;
        let refused = refusal(&client, "export_session", request.clone()).await;
        assert_eq!(refused["code"], "pdf_unavailable");
        assert!(
            refused["message"].as_str().unwrap().contains(why),
            "{refused}"
        );
    }
}

/// Relative times mean the same on every page, however late the next page is requested.
#[tokio::test]
async fn relative_times_count_from_the_first_page() {
    let client = client(library("amber")).await;
    let mut request =
        json!({ "query": "role:user", "startDate": "9000d", "endDate": "1s", "limit": 1 });
    let (first, _) = answer(&client, "search_sessions", request.clone()).await;
    let first_read_at = SystemClock.now().as_millis();
    while SystemClock.now().as_millis() == first_read_at {
        tokio::task::yield_now().await;
    }
    request["cursor"] = first["nextCursor"].clone();
    let (second, _) = answer(&client, "search_sessions", request).await;
    let id = |page: &Value| page["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_ne!(id(&first), id(&second));
    assert_eq!(second["nextCursor"], Value::Null);
}

#[tokio::test]
async fn sessions_are_resources() {
    let client = client(library_with_answer("amber", &long_text().repeat(20))).await;
    let resources = client.list_all_resources().await.unwrap();
    assert_eq!(resources.len(), 2);
    assert_eq!(resources[1].uri, "session://amber-1");
    assert_eq!(resources[1].mime_type.as_deref(), Some("text/markdown"));
    let templates = client.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "session://{id}");
    let read = ReadResourceRequestParams::new("session://amber-1");
    let read = client.read_resource(read).await.unwrap();
    let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
        panic!("{read:?}")
    };
    assert!(text.starts_with("Recorded data from opencode"), "{text}");
    let hint = text.rfind("export_session").expect("how to continue");
    assert!(text[hint..].contains("amber-1"));
    for unknown in ["session://amber-3", "file:///etc/passwd"] {
        let read = client.read_resource(ReadResourceRequestParams::new(unknown));
        let refused = read.await.unwrap_err().to_string();
        assert!(
            refused.contains("-32002") || refused.contains("-32602"),
            "{refused}"
        );
    }
}

/// The limit of a resource is in the middle of a code span. Without the span's end, its content would be an image.
#[tokio::test]
async fn a_resource_is_cut_between_blocks() {
    let image = "![x](https://evil.example/x.png) ";
    let text = format!("before\n\n`{}`", image.repeat(3_000));
    let client = client(library_with_answer("amber", &text)).await;
    let read = ReadResourceRequestParams::new("session://amber-1");
    let read = client.read_resource(read).await.unwrap();
    let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
        panic!("{read:?}")
    };
    assert!(
        text.contains("> before\n") && !text.contains("evil"),
        "{text}"
    );
    let (_, cursor) = text.rsplit_once("cursor \"").unwrap();
    let (cursor, _) = cursor.split_once('"').unwrap();
    let rest = json!({ "sessionID": "amber-1", "cursor": cursor });
    let (page, _) = answer(&client, "export_session", rest).await;
    let rest = page["content"].as_str().unwrap();
    assert!(
        rest.starts_with(">\n> `![x]"),
        "{}",
        &rest[..rest.len().min(80)]
    );
}

#[tokio::test]
async fn ids_are_completed() {
    let client = client(library("amber")).await;
    let complete = async |uri: &str, start: &str| {
        let argument = ArgumentInfo::new("id", start);
        let request = CompleteRequestParams::new(Reference::for_resource(uri), argument);
        client.complete(request).await.unwrap().completion.values
    };
    assert_eq!(
        complete("session://{id}", "am").await,
        ["amber-2", "amber-1"]
    );
    assert!(complete("session://{id}", "b").await.is_empty());
    assert!(complete("other://{id}", "am").await.is_empty());
}

#[tokio::test]
async fn the_recall_prompt_names_the_tools() {
    let client = client(library("amber")).await;
    let prompts = client.list_all_prompts().await.unwrap();
    assert_eq!(prompts[0].name, "recall");
    let mut request = GetPromptRequestParams::new("recall");
    let plain = client.get_prompt(request.clone()).await.unwrap();
    let plain = plain.messages[0].content.as_text().unwrap().text.clone();
    request.arguments = json!({ "question": "Which key did we rotate?" })
        .as_object()
        .cloned();
    let with_question = client.get_prompt(request.clone()).await.unwrap();
    let with_question = with_question.messages[0]
        .content
        .as_text()
        .unwrap()
        .text
        .clone();
    assert!(with_question.contains("Which key did we rotate?"));
    for text in [plain, with_question] {
        for tool in [
            "get_compacted_context",
            "search_sessions",
            "get_session_history",
        ] {
            assert!(text.contains(tool));
        }
        // The search leaves out the caller's own session without it.
        assert!(!text.contains("excludeSession"));
    }
    request.arguments = json!({ "topic": "x" }).as_object().cloned();
    assert!(client.get_prompt(request).await.is_err());
    assert!(
        client
            .get_prompt(GetPromptRequestParams::new("forget"))
            .await
            .is_err()
    );
}
