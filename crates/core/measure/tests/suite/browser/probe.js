// An expression that yields functions for tests of a report in a browser.
window.probe = {
  // Returns the numbers of marks and of their points by chart.
  charts() {
    const points = path => (path.getAttribute('d').match(/-?\d+/g) || []).length / 2;
    return Object.fromEntries([...document.querySelectorAll('figure')].map(figure => [figure.id, {
      shown: figure.querySelector('svg').getBoundingClientRect().height > 50,
      alternative: figure.querySelector('svg').ariaLabel.length,
      lines: [...figure.querySelectorAll('path.l')].map(points),
      thin: [...figure.querySelectorAll('path.t')].map(points),
      dashed: [...figure.querySelectorAll('path.h')].map(points),
      bands: [...figure.querySelectorAll('path.b')].map(points),
      dots: figure.querySelectorAll('use').length,
      hollow: figure.querySelectorAll('.i use').length,
    }]));
  },
  // Returns the highest value of each line of a chart with a linear axis, computed from its drawn position.
  highest(id) {
    const svg = document.querySelector('#' + id + ' > svg');
    const box = svg.dataset.box.split(' ').map(Number), to = +svg.dataset.y.split(' ')[2];
    return [...svg.querySelectorAll('path.l')].map(path => {
      const edges = path.getBBox();
      return to * (box[3] - edges.y) / (box[3] - box[2]);
    });
  },
  // Returns the marks of the time axis of a chart.
  marked(id) {
    const svg = document.querySelector('#' + id + ' > svg');
    const names = [...svg.querySelectorAll('text.a')].filter(text => text.getAttribute('y') === '50');
    return { phases: svg.querySelectorAll('path.w').length, faults: svg.querySelectorAll('path.f').length,
      limits: svg.querySelectorAll('path.y').length, names: names.map(text => text.textContent),
      fault: svg.querySelector('text.z').textContent };
  },
  // Returns how many tables are wider than their box, and those of them without a shade at the hidden end.
  shades() {
    const wide = [...document.querySelectorAll('.table > .scroll')].filter(box => box.scrollWidth > box.clientWidth + 1);
    const shaded = box => {
      const shade = getComputedStyle(box.parentNode, '::after');
      return shade.opacity === '1' && parseFloat(shade.width) > 10 && parseFloat(shade.height) > 10;
    };
    return { wide: wide.length, wrong: wide.filter(box => !shaded(box)).map(box => box.getAttribute('aria-label')) };
  },
  // Returns elements that are wider than their container.
  clipped() {
    const wrong = [];
    if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page: ' + document.documentElement.scrollWidth);
    for (const box of document.querySelectorAll('.scroll, figure, .bar, h1, h2, p, dd, main li'))
      if (box.getBoundingClientRect().right > innerWidth + 1) wrong.push(box.outerHTML.slice(0, 80));
    const isLeftOut = cell => {
      const column = cell.closest('table').querySelectorAll('col')[cell.cellIndex];
      return column && getComputedStyle(column).visibility === 'collapse';
    };
    for (const cell of document.querySelectorAll('th, td'))
      if (cell.scrollWidth > cell.clientWidth + 1 && !isLeftOut(cell)) wrong.push('cell ' + cell.textContent);
    for (const text of document.querySelectorAll('figure svg text')) {
      const figure = text.closest('figure').getBoundingClientRect(), box = text.getBoundingClientRect();
      if (box.right > figure.right + 1 || box.left < figure.left - 1) wrong.push('label ' + text.textContent);
    }
    return wrong;
  },
  // Returns text with low contrast: WCAG 2.2, 1.4.3 requires a ratio of 4.5.
  faint() {
    const parse = text => (text.match(/[\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
      .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
    const behind = element => {
      for (let at = element; at; at = at.parentElement) {
        const colour = parse(getComputedStyle(at).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour;
      }
      return [255, 255, 255];
    };
    const wrong = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    let checked = 0;
    while (texts.nextNode()) {
      const element = texts.currentNode.parentElement;
      if (!texts.currentNode.data.trim() || seen.has(element) || element.closest('script, title, desc, [hidden]')) continue;
      seen.add(element);
      const style = getComputedStyle(element);
      const [one, other] = [parse(element.closest('svg') ? style.fill : style.color), behind(element)].map(light);
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      checked += 1;
      if (ratio < 4.5) wrong.push(ratio.toFixed(2) + ': ' + element.outerHTML.slice(0, 100));
    }
    return { checked, wrong: wrong.slice(0, 10) };
  },
};
