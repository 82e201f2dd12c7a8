//! Agents that each try one thing: what tests/agents.rs and tests/hooks.rs drive. The example to read is `triage`.

use std::collections::HashMap;
use std::{env, fs, net, process};
use writ::agent::{Render, Tool, ToolCall, ToolError, Value, json};

const ANY: &str = r#"{"type": "object"}"#;

/// What steps may not do, and what they may.
fn repeater(cx: &mut Render) -> String {
    cx.model("m");
    cx.tool(Tool::stepped("twice", "", ANY, |call| {
        call.step("a", |_| Ok(json!(1)))?;
        call.step("a", |_| Ok(json!(2)))?;
        Ok("never".into())
    }));
    cx.tool(Tool::stepped("nested", "", ANY, |call| {
        call.step("outer", |step| step.step("inner", |_| Ok(Value::Null)))?;
        Ok("never".into())
    }));
    cx.tool(Tool::stepped("stateful", "", ANY, |call| {
        call.step("a", |step| {
            step.set_state("n", json!(1));
            Ok(Value::Null)
        })?;
        Ok("never".into())
    }));
    cx.tool(Tool::stepped("once", "", ANY, |call| Ok(call.step("a", |_| Ok(json!(3)))?.to_string())));
    String::new()
}

/// Counts its calls in the thread's state, and says what the render saw.
fn counter(cx: &mut Render) -> String {
    cx.model("m");
    let n = cx.state("n").and_then(Value::as_u64).unwrap_or(0);
    cx.tool(Tool::plain("count", "", ANY, move |call| {
        call.set_state("n", json!(n + 1));
        if call.arguments()["fail"] == true {
            return Err("it failed after it had set state".into());
        }
        Ok(format!("it was {n}"))
    }));
    format!("n is {n}")
}

/// Meets every ceiling of state and steps.
fn greedy(cx: &mut Render) -> String {
    cx.model("m");
    let kept = cx.state("kept").and_then(Value::as_str).map_or(0, str::len);
    cx.tool(Tool::stepped("take", "", ANY, take));
    format!("kept: {kept}")
}

fn take(call: &mut ToolCall) -> Result<String, ToolError> {
    let number = |name: &str| call.arguments()[name].as_u64().unwrap_or(0) as usize;
    let (state, value, steps) = (number("state"), number("value"), number("steps"));
    if state > 0 {
        call.set_state("kept", json!("x".repeat(state)));
    }
    if value > 0 {
        call.step("large", |_| Ok(json!("x".repeat(value))))?;
    }
    for n in 0..steps {
        call.step(&n.to_string(), |_| Ok(json!(n)))?;
    }
    Ok("taken".into())
}

/// Greets each message, and counts the greetings.
fn greeter(cx: &mut Render) -> String {
    cx.model("m");
    let n = cx.state("greeted").and_then(Value::as_u64).unwrap_or(0);
    cx.on_start(move |start| {
        if start.message() == "refuse" {
            return Err("this message is refused".into());
        }
        if start.message() == "chatter" {
            (0..17).for_each(|n| start.append(&n.to_string()));
        }
        start.append(&format!("greeting {} for {:?}", n + 1, start.message()));
        start.set_state("greeted", json!(n + 1));
        Ok(())
    });
    format!("greeted: {n}")
}

/// Goes on until the answer ends with "done"; then wants a number as the result.
fn critic(cx: &mut Render) -> String {
    cx.model("m");
    let n = cx.state("finishes").and_then(Value::as_u64).unwrap_or(0);
    cx.on_finish(move |finish| {
        finish.set_state("finishes", json!(n + 1));
        if finish.answer().starts_with("break") {
            return Err("the hook broke".into());
        }
        if finish.answer().starts_with("more") {
            finish.go_on("Go on.");
        }
        Ok(())
    });
    cx.result(r#"{"type": "integer"}"#);
    format!("finishes: {n}")
}

/// Can't be rendered.
fn failing(cx: &mut Render) -> String {
    cx.model("m");
    cx.fail("the moon is full");
    String::new()
}

/// Gives one name to two tools.
fn twins(cx: &mut Render) -> String {
    cx.model("m");
    cx.host_tool("look");
    cx.tool(Tool::plain("look", "", ANY, |_| Ok(String::new())));
    String::new()
}

/// Panics while it is rendered.
fn panicking(cx: &mut Render) -> String {
    panic!("the oven is on fire in thread {}", cx.thread().thread)
}

/// Panics in a tool, after a step.
fn fragile(cx: &mut Render) -> String {
    cx.model("m");
    cx.tool(Tool::stepped("fall", "", ANY, |call| {
        call.step("stand", |step| step.host_tool("note", &json!({})))?;
        panic!("the ladder broke")
    }));
    String::new()
}

/// Looks for the outside with std.
fn outside(cx: &mut Render) -> String {
    cx.model("m");
    cx.tool(Tool::plain("look", "", ANY, |_| {
        let kept = HashMap::from([(1, 2)]);
        let found = json!({
            "args": env::args().count(),
            "vars": env::vars().count(),
            "read": fs::read_dir("/").is_ok(),
            "written": fs::write("/trace", b"x").is_ok(),
            "connected": net::TcpStream::connect("127.0.0.1:80").is_ok(),
            "spawned": process::Command::new("true").spawn().is_ok(),
            "std": kept[&1],
        });
        Ok(found.to_string())
    }));
    String::new()
}

/// All that an override can change.
fn changeable(cx: &mut Render) -> String {
    cx.model("defined");
    cx.host_tool("read");
    cx.host_tool("write");
    cx.skill("tone", "Be kind.");
    "As defined.".into()
}

writ::export!(repeater, counter, greedy, greeter, critic, failing, twins, panicking, fragile, outside, changeable);
