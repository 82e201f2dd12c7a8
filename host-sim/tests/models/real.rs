//! A real coding session, where it is at hand.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use host_sim::compare::compare;
use host_sim::model::Event;
use host_sim::model::Model;
use host_sim::model::ModelError;
use host_sim::model::replay::ReplayModel;
use host_sim::model::replay::Steer;
use host_sim::recording::Recording;
use host_sim::recording::Role;
use host_sim::tools::Call;
use host_sim::tools::Tools;
use host_sim::tools::replay::ReplayTools;
use serde_json::Value;
use serde_json::json;
use tokio::sync::Mutex;

use crate::support::drain;
use crate::support::request;
use crate::support::user;

/// Takes a steer into the transcript at once, once.
struct Inbox {
    recording: Arc<Recording>,
    stored: Mutex<Vec<Value>>,
}

#[async_trait]
impl Steer for Inbox {
    async fn steer(&self, input: usize) {
        let text = self.recording.messages[self.recording.inputs[input].message].text();
        self.stored.lock().await.push(user(&text));
    }
}

/// The loop of a runtime in a few lines: it stores what model and tools give, and must end with the recording.
#[tokio::test]
async fn the_recorded_session_is_played_without_a_difference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/coding-session.jsonl");
    if !path.exists() {
        eprintln!("skipped: there is no ../shared/data/coding-session.jsonl beside this workspace");
        return;
    }
    let recording = Arc::new(Recording::load(&path).unwrap());
    let inbox = Arc::new(Inbox { recording: recording.clone(), stored: Mutex::default() });
    let model = ReplayModel::new(recording.clone(), inbox.clone());
    let tools = ReplayTools::new(recording.clone());
    let answers = recording.messages.iter().filter(|message| message.role == Role::Assistant).count() as u64;
    let mut turn = 0;
    let mut inputs = recording.inputs.iter().filter(|input| !input.steer);
    while turn < answers {
        let input = inputs.next().expect("the recording ends with an answer");
        let text = recording.messages[input.message].text();
        inbox.stored.lock().await.push(user(&text));
        loop {
            let asked = request(turn, json!(*inbox.stored.lock().await));
            let completion = match model.start(asked).await {
                Ok(completion) => completion,
                Err(ModelError::Transient { retry_after_ms: Some(0), .. }) => continue,
                Err(error) => panic!("turn {turn}: {error}"),
            };
            let (events, error) = drain(completion).await;
            turn += 1;
            let calls = store(&inbox, &events).await;
            for (id, name, arguments) in calls {
                let message = if error.is_some() {
                    json!({"role": "toolResult", "toolCallId": id, "toolName": name, "content": [],
                        "isError": true, "outcome": "notRun"})
                } else {
                    let call = Call {
                        effect_key: id.clone(),
                        name: name.clone(),
                        arguments,
                        thread: "t".to_owned(),
                        call_id: id.clone(),
                    };
                    let reply = tools.run(call).await;
                    json!({"role": "toolResult", "toolCallId": id, "toolName": name, "content": reply.content,
                        "isError": reply.is_error})
                };
                inbox.stored.lock().await.push(message);
            }
            let goes_on = events.iter().any(|event| {
                use host_sim::model::StopReason::*;
                matches!(event, Event::Stop(Pause | ToolUse))
            });
            if !goes_on {
                break;
            }
        }
    }
    let report = compare(&inbox.stored.lock().await, &recording);
    assert!(report.is_same(), "{report}");
    assert_eq!(report.messages, recording.messages.len());
    assert!(report.interrupted.is_empty() && report.notices.is_empty());
}

/// Stores an answer; its calls.
async fn store(inbox: &Inbox, events: &[Event]) -> Vec<(String, String, String)> {
    let mut content = Vec::new();
    let mut calls = Vec::new();
    for event in events {
        match event {
            Event::Text(text) => content.push(json!({"type": "text", "text": text})),
            Event::Block(block) => content.push(serde_json::from_str(block).unwrap()),
            Event::Call { id, name, arguments } => {
                let value: Value = serde_json::from_str(arguments).unwrap();
                content.push(json!({"type": "toolCall", "id": id, "name": name, "arguments": value}));
                calls.push((id.clone(), name.clone(), arguments.clone()));
            }
            Event::Usage(_) | Event::Stop(_) => {}
        }
    }
    inbox.stored.lock().await.push(json!({"role": "assistant", "content": content}));
    calls
}
