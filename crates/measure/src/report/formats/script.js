// Shows values under the pointer. The page is complete without this script.
'use strict';
for (const svg of document.querySelectorAll('figure > svg[data-x]')) {
  const figure = svg.parentNode;
  const names = new Map([...figure.querySelectorAll('.legend li')].map(li => [li.dataset.d, li.textContent]));
  const box = svg.dataset.box.split(' ').map(Number);
  const value = (axis, share) => {
    const [kind, from, to] = axis.split(' ');
    if (kind === 'log') return from * (to / from) ** share;
    if (kind === 'nines') return 100 * (1 - 10 ** (-share * to));
    return +from + share * (to - from);
  };
  const digits = number => +number.toPrecision(number < 99.9 ? 3 : 6);
  const time = ns => ns < 1e6 ? digits(ns / 1e3) + ' µs' : ns < 1e9 ? digits(ns / 1e6) + ' ms' : digits(ns / 1e9) + ' s';
  const points = path => {
    const all = [];
    for (const piece of path.getAttribute('d').split('M').slice(1)) {
      const numbers = piece.match(/-?\d+/g).map(Number);
      let [x, y] = numbers;
      all.push([x, y]);
      for (let i = 2; i + 1 < numbers.length; i += 2) all.push([x += numbers[i], y += numbers[i + 1]]);
    }
    return all;
  };
  const lines = [...svg.querySelectorAll('path.l, path.h')].map(path => ({
    name: names.get(path.dataset.d), dashed: path.classList[0] === 'h', points: points(path),
  }));
  const note = document.createElement('div');
  note.className = 'read';
  note.hidden = true;
  figure.append(note);
  svg.addEventListener('pointerleave', () => { note.hidden = true; });
  svg.addEventListener('pointermove', event => {
    const frame = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    const at = (event.clientX - frame.x) / frame.width * 960;
    const near = lines.map(line => [line, line.points.reduce((best, point) => Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best)])
      .filter(([, point]) => Math.abs(point[0] - at) < 12);
    note.hidden = near.length === 0;
    if (note.hidden) return;
    const x = value(svg.dataset.x, (near[0][1][0] - box[0]) / (box[1] - box[0]));
    const show = y => svg.dataset.y.startsWith('log') ? time(y) : digits(y).toLocaleString('en');
    const head = svg.dataset.x.startsWith('nines') ? 'p' + digits(x) : digits(x).toLocaleString('en') + svg.dataset.unit;
    note.textContent = [head, ...near.map(([line, point]) =>
      line.name + (line.dashed ? ' (dashed) ' : ' ') + show(value(svg.dataset.y, (box[3] - point[1]) / (box[3] - box[2]))))].join('\n');
    const left = event.clientX - outer.x;
    note.style.top = event.clientY - outer.y + 14 + 'px';
    note.style.left = Math.max(4, Math.min(left + 14, outer.width - note.offsetWidth - 4)) + 'px';
  });
}
