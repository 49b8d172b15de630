// Texts with less contrast to their ground than `least`, the worst first, and how many texts were measured.
(least) => {
  const colour = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    const [r, g, b, a = 1] = text.startsWith('color(') ? [...parts.slice(0, 3).map((part) => part * 255), ...parts.slice(3)] : parts;
    return { r, g, b, a };
  };
  const mix = (on, ground, part) => on * part + ground * (1 - part);
  const over = (on, ground) => ({ r: mix(on.r, ground.r, on.a), g: mix(on.g, ground.g, on.a), b: mix(on.b, ground.b, on.a), a: 1 });
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z + 0.05;
  };
  const chain = (node) => (node ? [...chain(node.parentElement), node] : []);
  const white = { r: 255, g: 255, b: 255, a: 1 };
  const poor = [];
  let measured = 0;
  const measure = (node, style, text, own) => {
    const parents = chain(node).map((of) => getComputedStyle(of));
    const grounds = [...parents.map((of) => of.backgroundColor), ...(own ? [own] : [])];
    const ground = grounds.reduce((under, of) => over(colour(of), under), white);
    const opacity = parents.reduce((product, of) => product * Number(of.opacity), 1);
    const ink = colour(style.color);
    const [a, b] = [luminance(over({ ...ink, a: ink.a * opacity }, ground)), luminance(ground)];
    const contrast = Math.max(a, b) / Math.min(a, b);
    measured += 1;
    if (contrast < least) poor.push({ contrast, text: `${contrast.toFixed(2)} ${node.closest('section, div[id]')?.id} ${node.tagName} ${text.slice(0, 40)}` });
  };
  document.querySelectorAll('details').forEach((node) => (node.open = true));
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const [node, text] = [texts.currentNode.parentElement, texts.currentNode.textContent.trim()];
    if (text && node.checkVisibility() && !['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(node.tagName)) measure(node, getComputedStyle(node), text);
  }
  for (const node of document.body.querySelectorAll('*')) {
    if (!node.checkVisibility()) continue;
    if (node.placeholder) measure(node, getComputedStyle(node, '::placeholder'), node.placeholder);
    for (const part of ['::before', '::after']) {
      const style = getComputedStyle(node, part);
      if (!['none', 'normal', '""'].includes(style.content)) measure(node, style, style.content, style.backgroundColor);
    }
  }
  return { measured, poor: poor.sort((a, b) => a.contrast - b.contrast).map((of) => of.text) };
}
