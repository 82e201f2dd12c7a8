//! A support desk as a durable agent: it looks orders up, pays them back, and hands in a report of a fixed form.
//!
//! Build it with `cargo build -p triage --release --target wasm32-wasip2`. docs/agents.md goes through it line by line.

use std::collections::HashMap;
use writ::agent::{Render, Tool, ToolCall, ToolError, Value, json};

/// What every finished ticket must look like.
const REPORT: &str = r#"{
    "type": "object",
    "required": ["category", "summary"],
    "properties": {
        "category": {"enum": ["billing", "bug", "question"]},
        "summary": {"type": "string", "maxLength": 500}
    }
}"#;

/// An agent is a function. It is called before every model call and says what the agent is *now*; it changes nothing.
fn triage(cx: &mut Render) -> String {
    cx.model("small");

    // A tool that the host has; its declaration and its policy are the host's.
    cx.host_tool("order_lookup");

    // A text that the instructions carry under a heading.
    cx.skill("tone", "Short sentences. No blame. Never promise a date.");

    // Persistent state, as tools and hooks of earlier turns have set it. It belongs to the thread.
    let tickets = cx.state("tickets").and_then(Value::as_u64).unwrap_or(0);
    let refunded = cx.state("refunded").cloned().unwrap_or(Value::Null);

    // Once for each delivered message, before the model is asked about it.
    cx.on_start(move |start| {
        start.set_state("tickets", json!(tickets + 1));
        if start.message().contains("lawyer") {
            start.append("A lawyer is mentioned: stay factual, and offer a call from a person.");
        }
        Ok(())
    });

    // When the model has answered without asking for tools. It may send the model back to work.
    cx.on_finish(|finish| {
        if finish.answer().contains("TODO") {
            finish.go_on("There is a TODO left in your answer. Finish it.");
        }
        Ok(())
    });

    // The last answer must be JSON of this form; a wrong one is sent back to the model with what is wrong.
    cx.result(REPORT);

    // Pure computing: running it again after a crash is harmless, and says so.
    cx.tool(Tool::replay_safe(
        "urgency",
        "Says how urgent a text sounds, from 0 to 10",
        r#"{"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}"#,
        |call| Ok(urgency(call.arguments()["text"].as_str().unwrap_or_default()).to_string()),
    ));

    // Money: a tool of recorded steps.
    cx.tool(Tool::stepped(
        "refund",
        "Pays an order back, and tells the customer",
        r#"{"type": "object", "required": ["order", "cents"],
            "properties": {"order": {"type": "integer"}, "cents": {"type": "integer", "minimum": 1, "maximum": 50000}}}"#,
        refund,
    ));

    format!("You sort and answer support tickets. This is ticket {tickets}. Paid back before: {refunded}.")
}

/// A crash at any point costs nothing: the tool is run again, and a step that is recorded gives its recorded value.
/// A step that was under way runs again with the *same effect key*, so a bank that knows keys pays once.
fn refund(call: &mut ToolCall) -> Result<String, ToolError> {
    let (order, cents) = (call.arguments()["order"].clone(), call.arguments()["cents"].clone());
    let receipt = call.step("pay", |step| {
        // The host hands the step's effect key on with this call.
        step.host_tool("bank_pay", &json!({"order": order, "cents": cents}))
    })?;
    call.step("mail", |step| {
        let text = format!("We have paid order {order} back. Receipt: {receipt}");
        // For a far end that takes the key as an argument.
        step.host_tool("mail_send", &json!({"text": text, "key": step.effect_key()}))
    })?;
    // Counts in the same commit as the result of this call: never one without the other.
    call.set_state("refunded", json!({"order": order, "cents": cents}));
    Ok(format!("paid: {receipt}"))
}

/// A component may use all of std that needs no outside: there are no files, no network and no environment in here.
fn urgency(text: &str) -> u32 {
    let weights = HashMap::from([("urgent", 4), ("immediately", 3), ("down", 3), ("broken", 2), ("please", 1)]);
    text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter_map(|word| weights.get(word)).sum::<u32>().min(10)
}

// Makes the component. Names of functions are names of agents; several are separated by commas.
writ::export!(triage);
