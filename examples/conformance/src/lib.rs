//! What the public conformance suite of MCP calls: an agent for each tool that it knows by name.
//!
//! Nothing is answered in here. Each agent tells the model, as the script `script.toml` plays it, which fixture is meant;
//! blocks, failures, delays and calls of tools all come from there, so that the suite sees what a real conversation gives.
//! `settings.json` says what the tools take. docs/conformance.md tells how to run it.

use writ::agent::Render;

/// Tools of the host that a fixture may call; a person is asked first.
const TOOLS: [&str; 3] = ["delete_file", "ask_name", "ask_age"];

fn fixture(cx: &mut Render, name: &'static str) -> String {
    cx.model("scripted");
    TOOLS.iter().for_each(|tool| cx.host_tool(tool));
    cx.on_start(move |start| {
        // Answers of a script are chosen by the last message.
        let asked = format!("[{name}] {}", start.message());
        start.append(&asked);
        Ok(())
    });
    format!("You are the fixture {name}.")
}

macro_rules! fixtures {
    ($($name:ident)*) => {
        $(fn $name(cx: &mut Render) -> String {
            fixture(cx, stringify!($name))
        })*
        writ::export!($($name),*);
    };
}

fixtures! {
    test_simple_text test_image_content test_audio_content test_embedded_resource test_multiple_content_types
    test_error_handling test_tool_with_progress test_missing_capability test_streaming_elicitation test_logging_tool
    json_schema_2020_12_tool
    test_input_required_result_elicitation test_input_required_result_request_state
    test_input_required_result_tampered_state
    greet slow_compute failing_job protocol_error_job confirm_delete multi_input
}
