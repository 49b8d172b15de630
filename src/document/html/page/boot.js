// Unpacks the page's script with the style of its views, and starts it. They are packed like the data, because pages are sent by mail: packing cuts
// them to a third. The page's policy allows all of them by digest, so nothing else can take the place of what is unpacked.

(async () => {
  const fail = (what) => {
    const alert = document.createElement('p');
    alert.setAttribute('role', 'alert');
    alert.className = 'alert';
    alert.textContent = `${what}. What is above needs nothing.`;
    document.getElementById('views').before(alert);
  };
  if (typeof DecompressionStream === 'undefined') {
    fail('This browser cannot unpack the pictures of this page: it has no DecompressionStream, as Chromium 80, Firefox 113 and Safari 16.4 have');
    return;
  }
  if (!CSS.supports('color', 'light-dark(#000, #fff)')) {
    fail('This browser shows this page without its colours: it has no light-dark(), as Chromium 123, Firefox 120 and Safari 17.5 have');
  }
  try {
    const packed = atob(document.getElementById('code').textContent);
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const texts = (await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text()).split('\0');
    for (const [at, tag] of ['style', 'script'].entries()) document.head.append(Object.assign(document.createElement(tag), { textContent: texts[at] }));
  } catch (error) {
    fail(`The script of this page cannot be unpacked: ${error.message}. The file may have been changed on its way`);
  }
})();
