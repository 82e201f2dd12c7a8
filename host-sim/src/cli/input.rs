//! Lines of a conversation: edited on a terminal, plain when piped.

use std::io::IsTerminal;

use tokio::io::AsyncBufReadExt;
use tokio::io::BufReader;
use tokio::io::Lines;
use tokio::io::Stdin;
use tokio::sync::mpsc;

use super::failure::Failure;
use super::out::Out;

/// What came from the person.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// No more.
    End,
    /// A message.
    Message(String),
}

/// Where lines come from.
pub enum Input {
    /// A terminal with an editor; `None` while it is asked.
    Editor(Option<Box<rustyline::DefaultEditor>>),
    /// A pipe or a file.
    Plain(Box<Lines<BufReader<Stdin>>>),
}

impl Input {
    /// The process's stdin.
    pub fn new(out: Out) -> Self {
        let talking = std::io::stdin().is_terminal() && out.stdout_tty && !out.json;
        if let Some(Ok(editor)) = talking.then(rustyline::DefaultEditor::new) {
            return Self::Editor(Some(Box::new(editor)));
        }
        Self::Plain(Box::new(BufReader::new(tokio::io::stdin()).lines()))
    }

    /// The next line. Ctrl-C at a prompt clears it; on plain input it ends the conversation.
    pub async fn line(&mut self, interrupts: &mut mpsc::Receiver<()>) -> Result<Line, Failure> {
        match self {
            Self::Editor(editor) => edited(editor).await,
            Self::Plain(lines) => tokio::select! {
                Some(()) = interrupts.recv() => Ok(Line::End),
                line = lines.next_line() => match line {
                    Ok(Some(text)) => Ok(Line::Message(text)),
                    Ok(None) => Ok(Line::End),
                    Err(e) => Err(Failure::refused("stdin", format!("stdin is no UTF-8 text: {e}"))),
                },
            },
        }
    }
}

async fn edited(slot: &mut Option<Box<rustyline::DefaultEditor>>) -> Result<Line, Failure> {
    loop {
        let Some(mut editor) = slot.take() else { return Ok(Line::End) };
        let asked = tokio::task::spawn_blocking(move || {
            let read = editor.readline("> ");
            (editor, read)
        });
        let (editor, read) =
            asked.await.map_err(|e| Failure::internal("editor", format!("the line editor died: {e}")))?;
        let editor = slot.insert(editor);
        match read {
            Ok(text) => {
                let _ = editor.add_history_entry(&text);
                return Ok(Line::Message(text));
            }
            Err(rustyline::error::ReadlineError::Interrupted) => {}
            Err(rustyline::error::ReadlineError::Eof) => return Ok(Line::End),
            Err(e) => return Err(Failure::internal("editor", format!("the terminal can't be read: {e}"))),
        }
    }
}
