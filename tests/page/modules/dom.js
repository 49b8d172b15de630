// Names from a trace are text, whatever is in them.
const hostile = '</bdi><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\u202e" onmouseover="window.pwned=1';
const node = nameNode(hostile);
document.body.append(node);
equal(node.childNodes.length, 1);
equal(node.firstChild.nodeType, Node.TEXT_NODE);
equal(node.textContent, hostile.replace('\u202e', '\\u{202e}'));
equal(document.querySelectorAll('img, script').length, 0);
equal(window.pwned === undefined, true);

const box = el('p', { class: 'a', role: 'note', 'aria-label': hostile, tabIndex: 0, hidden: false, 'data-of': 0 }, 'x', null, undefined, ['y', hostile]);
equal(box.getAttribute('aria-label'), hostile, 'an attribute is a value');
equal(box.getAttributeNames().sort(), ['aria-label', 'class', 'data-of', 'role', 'tabindex']);
equal(box.textContent, `xy${hostile}`);
let clicks = 0;
const clicked = el('button', { type: 'button', onclick: () => { clicks += 1; } }, hostile);
clicked.click();
equal([clicks, clicked.childElementCount], [1, 0]);

const part = section('of', hostile, 'what it shows', el('p', {}, 'z'));
equal([part.tagName, part.id, part.querySelector('h2').textContent], ['SECTION', 'of', hostile]);
equal(part.querySelector('h2').tabIndex, -1, 'a heading takes the focus when a link leads to it');

let chosen = null;
const choices = choice('by', [['a', 'A'], ['b', hostile]], 'a', (value) => { chosen = value; });
const pressed = () => [...choices.node.querySelectorAll('button')].map((of) => of.getAttribute('aria-pressed'));
equal(pressed(), ['true', 'false']);
choices.node.querySelectorAll('button')[1].click();
equal(chosen, 'b');
choices.show('b');
equal(pressed(), ['false', 'true']);
