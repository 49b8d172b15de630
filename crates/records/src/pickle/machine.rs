//! The stack machine of pickles, as far as it makes data.

use super::PickleError;
use super::opcode as op;
use crate::nodes::{Document, MAX_NODES, Node, Part};

/// The names of what a pickle imports are not longer than this.
const MAX_LINE: u64 = 1 << 20;

/// A text longer than this is not of a record.
const MAX_TEXT: u64 = 256 << 20;

pub(super) struct Machine<'a> {
    /// What is not executed yet.
    bytes: &'a [u8],
    at: u64,
    /// Where the instruction is that is executed.
    start: u64,
    document: Document,
    stack: Vec<u32>,
    /// How much of the stack was there at each mark.
    marks: Vec<usize>,
    /// What the pickle numbers. Python numbers from 0 on without gaps, so that a number far beyond is damage.
    memo: Vec<Option<u32>>,
    /// How many bytes of text are held.
    held: u64,
}

type Done<T = ()> = Result<T, PickleError>;

impl<'a> Machine<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let (document, stack, marks, memo) = (Document::default(), Vec::new(), Vec::new(), Vec::new());
        Machine { bytes, at: 0, start: 0, document, stack, marks, memo, held: 0 }
    }

    /// Executes all instructions, and returns the position of the outermost value.
    pub(super) fn run(&mut self) -> Done<u32> {
        loop {
            self.start = self.at;
            match self.byte()? {
                other if self.start == 0 && other != op::PROTO => return Err(PickleError::Old),
                op::STOP => return self.pop(),
                op::PROTO => {
                    if self.byte()? > 5 {
                        return Err(self.damaged("its protocol is newer than 5"));
                    }
                }
                op::FRAME => drop(self.wide()?),
                opcode => self.execute(opcode)?,
            }
        }
    }

    /// Executes an instruction that makes values or puts them together, or refuses it.
    fn execute(&mut self, opcode: u8) -> Done {
        match opcode {
            op::NONE => self.push(Node::None),
            op::NEWTRUE => self.push(Node::Bool(true)),
            op::NEWFALSE => self.push(Node::Bool(false)),
            op::BININT => self.array().and_then(|of| self.push(Node::Int(i32::from_le_bytes(of).into()))),
            op::BININT1 => self.byte().and_then(|number| self.push(Node::Int(number.into()))),
            op::BININT2 => self.array().and_then(|of| self.push(Node::Int(u16::from_le_bytes(of).into()))),
            op::BINFLOAT => self.array().and_then(|of| self.push(Node::Float(f64::from_be_bytes(of)))),
            op::LONG1 => self.byte().and_then(|n| self.int(n.into())),
            op::LONG4 => self.long().and_then(|n| self.int(n.into())),
            op::SHORT_BINSTRING | op::SHORT_BINUNICODE => self.byte().and_then(|n| self.text(n.into())),
            op::BINSTRING | op::BINUNICODE => self.long().and_then(|n| self.text(n.into())),
            op::BINUNICODE8 => self.wide().and_then(|n| self.text(n)),
            op::SHORT_BINBYTES => self.byte().and_then(|n| self.binary(n.into())),
            op::BINBYTES => self.long().and_then(|n| self.binary(n.into())),
            op::BINBYTES8 | op::BYTEARRAY8 => self.wide().and_then(|n| self.binary(n)),
            op::EMPTY_LIST | op::EMPTY_TUPLE | op::EMPTY_SET => self.push(Node::List(Part::default())),
            op::EMPTY_DICT => self.push(Node::Dict(Part::default())),
            op::MARK => {
                self.room(self.marks.len())?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            op::TUPLE | op::FROZENSET => self.mark().and_then(|first| self.push_list(first)),
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let first = self.items_from(usize::from(opcode - op::TUPLE1) + 1)?;
                self.push_list(first)
            }
            op::APPEND => self.items_from(1).and_then(|first| self.extend(first, false)),
            op::APPENDS | op::ADDITEMS => self.mark().and_then(|first| self.extend(first, false)),
            op::SETITEM => self.items_from(2).and_then(|first| self.extend(first, true)),
            op::SETITEMS => self.mark().and_then(|first| self.extend(first, true)),
            op::POP if self.stack.len() == self.floor() && !self.marks.is_empty() => self.pop_mark(),
            op::POP => self.pop().map(drop),
            op::POP_MARK => self.pop_mark(),
            op::MEMOIZE => self.put(self.memo.len()),
            op::BINPUT => self.byte().and_then(|number| self.put(number.into())),
            op::LONG_BINPUT => self.long().and_then(|number| self.put(number as usize)),
            op::BINGET => self.byte().and_then(|number| self.get(number.into())),
            op::LONG_BINGET => self.long().and_then(|number| self.get(number as usize)),
            op::GLOBAL => Err(self.import()),
            op::STACK_GLOBAL => Err(self.stack_import()),
            _ => Err(match op::refused(opcode) {
                Some(what) => PickleError::Executes { what: what.to_owned(), at: self.start },
                None => PickleError::Unknown { opcode, at: self.start },
            }),
        }
    }

    pub(super) fn finished(self, root: u32) -> (Document, u32) {
        (self.document, root)
    }

    /// What a pickle that ended early had built: the outermost dictionary with the values of its keys, and of a value that has no end what is
    /// whole in it.
    ///
    /// A dictionary or list comes first, then a mark, then what goes into it, which the last instruction puts there. So at the end of
    /// the text all of that is on the stack still, and what is under construction is empty.
    pub(super) fn unfinished(mut self) -> Option<(Document, u32)> {
        let root = *self.stack.first()?;
        let after = |at: usize| self.marks.iter().copied().find(|mark| *mark > at).unwrap_or(self.stack.len());
        // Up to the mark within a value of the outermost dictionary, and from there up to the mark within a part of that.
        let (within, within_part) = (after(1), after(after(1)));
        let (pairs, rest) = self.stack.get(1..within)?.as_chunks::<2>();
        let pairs = &pairs[..pairs.iter().take_while(|[key, _]| self.is_text(*key)).count()];
        let is_whole = |at: &u32| match self.document.nodes.get(*at as usize) {
            Some(Node::List(part) | Node::Dict(part)) => !part.is_empty(),
            _ => false,
        };
        let parts = self.stack.get(within..within_part).filter(|_| rest.is_empty()).unwrap_or_default();
        let node = |at: u32| self.document.nodes.get(at as usize);
        let last = pairs.last().map(|[_, value]| *value);
        let whole = match last.and_then(node) {
            Some(Node::List(_)) => parts.iter().take_while(|at| is_whole(at)).count(),
            Some(Node::Dict(_)) => {
                let is_pair = |[key, value]: &&[u32; 2]| self.is_text(*key) && is_whole(value);
                2 * parts.as_chunks::<2>().0.iter().take_while(is_pair).count()
            }
            _ => 0,
        };
        let Some(Node::Dict(_)) = node(root) else { return None };
        if let Some(last) = last {
            self.document.extend(last, &parts[..whole])?;
        }
        self.document.extend(root, pairs.as_flattened())?;
        Some((self.document, root))
    }

    fn is_text(&self, at: u32) -> bool {
        matches!(self.document.nodes.get(at as usize), Some(Node::Text(_)))
    }

    /// A whole number of so many bytes, the least first.
    fn int(&mut self, n: u64) -> Done {
        let bytes = self.take(n)?;
        let mut whole = [if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 }; 8];
        self.push(match whole.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(bytes);
                Node::Int(i64::from_le_bytes(whole))
            }
            None => Node::Huge,
        })
    }

    /// A text of so many bytes. Those of protocol 2 are of no certain encoding.
    fn text(&mut self, n: u64) -> Done {
        let bytes = self.take(n)?;
        let added = self.document.add_text(&String::from_utf8_lossy(bytes));
        self.push_added(added)
    }

    fn binary(&mut self, n: u64) -> Done {
        self.take(n)?;
        self.push(Node::Bytes)
    }

    fn get(&mut self, number: usize) -> Done {
        let known = self.memo.get(number).copied().flatten();
        self.push_known(known.ok_or_else(|| self.damaged("it names a value that was not numbered before"))?)
    }

    fn put(&mut self, number: usize) -> Done {
        let top = self.below(self.stack.len())?;
        // Each number that is used before needed an instruction of its own, so the table is not longer than the text.
        if number as u64 > self.at {
            return Err(self.damaged("it numbers a value beyond all others"));
        }
        self.room(number)?;
        if self.memo.len() <= number {
            self.memo.resize(number + 1, None);
        }
        self.memo[number] = Some(top);
        Ok(())
    }

    /// Takes what is on the stack from a place on, for the list or dictionary below it.
    fn extend(&mut self, first: usize, is_dict: bool) -> Done {
        if is_dict && !(self.stack.len() - first).is_multiple_of(2) {
            return Err(self.damaged("a key without a value"));
        }
        let container = self.below(first)?;
        match (self.document.nodes.get(container as usize), is_dict) {
            (Some(Node::List(_)), false) | (Some(Node::Dict(_)), true) => {}
            (_, false) => return Err(self.damaged("it appends to something that is not a list")),
            (_, true) => return Err(self.damaged("it sets an item of something that is not a dictionary")),
        }
        let added = self.document.extend(container, &self.stack[first..]);
        self.stack.truncate(first);
        added.ok_or_else(|| self.too_many())
    }

    /// What is on the stack before a place, above the mark.
    fn below(&self, place: usize) -> Done<u32> {
        self.stack[self.floor()..place].last().copied().ok_or_else(|| self.too_few())
    }

    /// The place on the stack of the last `n` values above the mark.
    fn items_from(&self, n: usize) -> Done<usize> {
        self.stack.len().checked_sub(n).filter(|first| *first >= self.floor()).ok_or_else(|| self.too_few())
    }

    /// The part of the stack below which nothing is taken until the mark is.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn push(&mut self, node: Node) -> Done {
        let added = self.document.add(node);
        self.push_added(added)
    }

    /// Puts a list of what is on the stack from a place on in its place.
    fn push_list(&mut self, first: usize) -> Done {
        let added = self.document.add_list(&self.stack[first..]);
        self.stack.truncate(first);
        self.push_added(added)
    }

    fn push_added(&mut self, added: Option<u32>) -> Done {
        self.push_known(added.ok_or_else(|| self.too_many())?)
    }

    fn too_many(&self) -> PickleError {
        PickleError::TooLarge { what: "too many values", at: self.start }
    }

    fn push_known(&mut self, at: u32) -> Done {
        self.room(self.stack.len())?;
        self.stack.push(at);
        Ok(())
    }

    fn pop(&mut self) -> Done<u32> {
        let top = self.below(self.stack.len())?;
        self.stack.pop();
        Ok(top)
    }

    fn mark(&mut self) -> Done<usize> {
        self.marks.pop().ok_or_else(|| self.damaged("it takes values up to a mark that is not there"))
    }

    fn pop_mark(&mut self) -> Done {
        let mark = self.mark()?;
        self.stack.truncate(mark);
        Ok(())
    }

    /// The error if there are so many of something already.
    fn room(&self, taken: usize) -> Done {
        match taken {
            0..MAX_NODES => Ok(()),
            _ => Err(self.too_many()),
        }
    }

    fn array<const N: usize>(&mut self) -> Done<[u8; N]> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(PickleError::EndsEarly { at: self.at })?;
        (self.bytes, self.at) = (rest, self.at + N as u64);
        Ok(*array)
    }

    fn byte(&mut self) -> Done<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn long(&mut self) -> Done<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn wide(&mut self) -> Done<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn take(&mut self, n: u64) -> Done<&'a [u8]> {
        let limit = n.min(MAX_TEXT);
        let taken = self.some(limit as usize);
        if (taken.len() as u64) < limit {
            return Err(PickleError::EndsEarly { at: self.at });
        }
        if n > MAX_TEXT || self.held > 2 * MAX_TEXT {
            return Err(PickleError::TooLarge { what: "too much text", at: self.start });
        }
        Ok(taken)
    }

    /// So many bytes, or what is left.
    fn some(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(n.min(self.bytes.len()));
        self.bytes = rest;
        (self.at, self.held) = (self.at + taken.len() as u64, self.held + taken.len() as u64);
        taken
    }

    fn line(&mut self) -> Done<String> {
        let end = self.bytes.iter().take(MAX_LINE as usize).position(|byte| *byte == b'\n');
        let line = self.some(end.map_or(MAX_LINE as usize, |end| end + 1));
        match line.split_last() {
            Some((b'\n', line)) if self.held <= 2 * MAX_TEXT => Ok(String::from_utf8_lossy(line).into_owned()),
            Some(_) if line.len() as u64 >= MAX_LINE || self.held > 2 * MAX_TEXT => {
                Err(PickleError::TooLarge { what: "a line that does not end", at: self.start })
            }
            _ => Err(PickleError::EndsEarly { at: self.at }),
        }
    }

    fn too_few(&self) -> PickleError {
        self.damaged("it takes more values than there are")
    }

    fn damaged(&self, what: &'static str) -> PickleError {
        PickleError::Damaged { what, at: self.start }
    }

    /// The refusal of an import by two lines.
    fn import(&mut self) -> PickleError {
        let mut name = || self.line();
        match name().and_then(|module| Ok((module, name()?))) {
            Ok((module, name)) => self.imports(&module, &name),
            Err(error) => error,
        }
    }

    /// The refusal of an import by two texts on the stack.
    fn stack_import(&mut self) -> PickleError {
        let mut text = || {
            let at = self.pop().ok()?;
            self.document.value(at).text().map(str::to_owned)
        };
        let (name, module) = (text(), text());
        match (module, name) {
            (Some(module), Some(name)) => self.imports(&module, &name),
            _ => self.damaged("it imports something without a name"),
        }
    }

    fn imports(&self, module: &str, name: &str) -> PickleError {
        let name: String = format!("{module}.{name}").chars().take(100).collect();
        PickleError::Executes { what: format!("import and call {name}"), at: self.start }
    }
}
