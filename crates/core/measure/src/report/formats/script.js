// Lets a reader switch daemons off, read charts under a cursor, sort tables and copy them. The page is complete without
// this script.
'use strict';
{
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, properties) => Object.assign(document.createElement(tag), properties);

  // The legend: a button for each daemon.
  const names = new Map();
  for (const item of all('.legend li')) {
    const daemon = item.dataset.d;
    names.set(daemon, item.textContent);
    const button = make('button', { type: 'button', className: item.className, textContent: item.textContent });
    const show = on => {
      button.setAttribute('aria-pressed', on);
      button.title = on ? 'Hide in all charts' : 'Show in all charts';
      for (const mark of all(`main [data-d="${daemon}"]`)) mark.style.display = on ? '' : 'none';
    };
    button.addEventListener('click', () => show(button.getAttribute('aria-pressed') !== 'true'));
    show(true);
    item.className = '';
    item.replaceChildren(button);
  }

  // Charts: values under the pointer, or under a cursor that arrow keys move.
  const said = make('div', { className: 'said' });
  said.setAttribute('aria-live', 'polite');
  document.body.append(said);
  const digits = number => +number.toPrecision(number < 99.9 ? 3 : 6);
  // Values are read from the drawing, which is as exact as three digits.
  const three = number => +number.toPrecision(3);
  const time = ns => ns < 1e6 ? three(ns / 1e3) + ' µs' : ns < 1e9 ? three(ns / 1e6) + ' ms' : three(ns / 1e9) + ' s';
  const value = (axis, share) => {
    const [kind, from, to] = axis.split(' ');
    if (kind === 'log') return from * (to / from) ** share;
    if (kind === 'nines') return 100 * (1 - 10 ** (-share * to));
    return +from + share * (to - from);
  };
  const points = path => {
    const found = [];
    for (const piece of path.getAttribute('d').split('M').slice(1)) {
      const numbers = piece.match(/-?\d+/g).map(Number);
      let [x, y] = numbers;
      found.push([x, y]);
      for (let i = 2; i + 1 < numbers.length; i += 2) found.push([x += numbers[i], y += numbers[i + 1]]);
    }
    return found;
  };
  const charts = all('figure > svg[data-x]').map(svg => {
    const figure = svg.parentNode, box = svg.dataset.box.split(' ').map(Number), width = svg.viewBox.baseVal.width;
    const [unit, unitOfValues] = svg.dataset.unit.split('|');
    const isTime = 'time' in svg.dataset;
    const to = +svg.dataset.x.split(' ')[2];
    const heat = svg.querySelector('.heat'), cells = heat?.dataset.cells.split(';').map(column => column.split(',').map(Number));
    // Lines are read only when a cursor first needs them.
    let lines, note, cursor;
    const prepare = () => {
      lines = all('path.l, path.h', svg).map(path => ({ path, name: names.get(path.dataset.d), dashed: path.classList[0] === 'h', points: points(path) }));
      note = make('div', { className: 'read', hidden: true });
      cursor = document.createElementNS(svg.namespaceURI, 'path');
      cursor.setAttribute('class', heat ? 'cursor cell' : 'cursor');
      svg.append(cursor);
      figure.append(note);
    };
    const reach = Math.max(12, isTime ? (box[1] - box[0]) / to * 0.75 : 0);
    const chart = { svg, box, width, timeline: svg.dataset.time, rows: heat ? +heat.dataset.rows : 0, places: () => {
      if (!lines) prepare();
      if (heat) return cells.map((_, column) => box[0] + (column + 0.5) * heat.dataset.column / to * (box[1] - box[0])).filter(place => place < box[1]);
      return [...new Set(lines.filter(line => line.path.style.display !== 'none').flatMap(line => line.points.map(point => point[0])))].sort((a, b) => a - b);
    } };
    chart.share = x => (x - box[0]) / (box[1] - box[0]);
    chart.hide = () => { if (note) { note.hidden = true; cursor.removeAttribute('d'); } };
    // Reads a column of a heat map, or one of its cells.
    const readHeat = (at, y) => {
      const step = +heat.dataset.column, column = Math.floor(chart.share(at) * to / step), [first, ...counts] = cells[column] ?? [0];
      if (!(column in cells)) return chart.hide(), '';
      const x = second => box[0] + second / to * (box[1] - box[0]), height = (box[3] - box[2]) / chart.rows;
      const share = row => time(value(svg.dataset.y, row / chart.rows)), all = counts.reduce((sum, count) => sum + count, 0);
      const row = Math.min(Math.max(Math.floor((box[3] - y) / height), 0), chart.rows - 1);
      const ends = [column * step, (column + 1) * step], edges = y === undefined ? [box[3], box[2]] : [row, row + 1].map(edge => box[3] - edge * height);
      cursor.setAttribute('d', `M${x(ends[0])} ${edges[0]}H${Math.min(x(ends[1]), box[1])}V${edges[1]}H${x(ends[0])}Z`);
      const total = `${all.toLocaleString('en')} values` + (all ? `, ${share(first)} to ${share(first + counts.length)}` : '');
      const cell = `${share(row)} to ${share(row + 1)}: ${(counts[row - first] ?? 0).toLocaleString('en')} of ${all.toLocaleString('en')} values`;
      note.textContent = [ends.join('–') + ' s', names.get(figure.dataset.d), y === undefined ? total : cell].filter(Boolean).join('\n');
      note.hidden = false;
      return place((x(ends[0]) + x(ends[1])) / 2);
    };
    // Puts the note beside a place of the plot.
    const place = at => {
      const frame = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
      const left = frame.x - outer.x + at / width * frame.width;
      note.style.top = frame.y - outer.y + box[2] / width * frame.width + 2 + 'px';
      note.style.left = (left + note.offsetWidth + 8 < outer.width ? left + 6 : Math.max(0, left - note.offsetWidth - 6)) + 'px';
      return note.textContent;
    };
    chart.show = (at, y) => {
      if (!lines) prepare();
      if (heat) return readHeat(at, y);
      const near = lines.filter(line => line.path.style.display !== 'none')
        .map(line => [line, line.points.reduce((best, point) => Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best)])
        .filter(([, point]) => Math.abs(point[0] - at) < reach);
      const here = near.length ? near[0][1][0] : at;
      cursor.setAttribute('d', `M${here} ${box[2]}V${box[3]}`);
      note.hidden = near.length === 0;
      if (note.hidden) return '';
      const x = value(svg.dataset.x, chart.share(here)), second = Math.floor(x + 0.01);
      const head = isTime ? `${second}–${second + 1} s` : unit === '%' ? 'p' + digits(x) : digits(x).toLocaleString('en') + unit;
      const show = y => unitOfValues === 'ns' ? time(y) : three(y).toLocaleString('en') + unitOfValues;
      note.textContent = [head, ...near.map(([line, point]) => [line.name, line.dashed && '(dashed)',
        show(value(svg.dataset.y, (box[3] - point[1]) / (box[3] - box[2])))].filter(Boolean).join(' '))].join('\n');
      return place(here);
    };
    return chart;
  });
  // Charts of one time axis share a cursor.
  const linked = chart => charts.filter(other => other === chart || chart.timeline && other.timeline === chart.timeline && other.svg.checkVisibility());
  const showAll = (chart, at, y) => {
    for (const other of linked(chart)) if (other !== chart) other.show(other.box[0] + chart.share(at) * (other.box[1] - other.box[0]));
    return chart.show(at, y);
  };
  const hideAll = chart => { for (const other of linked(chart)) other.hide(); };
  for (const chart of charts) {
    const { svg, box, width } = chart;
    let at, row;
    // The height of a row of a heat map that arrow keys chose.
    const height = () => row === undefined ? undefined : box[3] - (row + 0.5) / chart.rows * (box[3] - box[2]);
    svg.tabIndex = 0;
    svg.addEventListener('pointermove', event => {
      const frame = svg.getBoundingClientRect();
      at = (event.clientX - frame.x) / frame.width * width;
      if (at < box[0] - 4 || at > box[1] + 4) hideAll(chart); else showAll(chart, at, (event.clientY - frame.y) / frame.width * width);
    });
    svg.addEventListener('pointerleave', () => hideAll(chart));
    svg.addEventListener('blur', () => hideAll(chart));
    svg.addEventListener('keydown', event => {
      if (event.key === 'Escape') return hideAll(chart);
      const up = chart.rows && { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (up && at !== undefined) {
        event.preventDefault();
        row = Math.min(Math.max(row === undefined ? (up > 0 ? 0 : chart.rows - 1) : row + up, 0), chart.rows - 1);
        said.textContent = showAll(chart, at, height());
        return;
      }
      const places = chart.places(), last = places.length - 1;
      const here = at === undefined ? -1 : places.findIndex(place => place >= at - 0.5);
      const next = { ArrowRight: Math.min(here < 0 && at !== undefined ? last : here + 1, last), ArrowLeft: Math.max((here < 0 ? last + 1 : here) - 1, 0), Home: 0, End: last }[event.key];
      if (next === undefined || last < 0) return;
      event.preventDefault();
      at = places[next];
      said.textContent = showAll(chart, at, height());
    });
  }

  // Tables: sorted by a column, copied as CSV.
  const main = cell => (cell.firstChild?.nodeType === 3 ? cell.firstChild.data : cell.textContent).trim();
  const factors = { ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };
  const number = text => {
    const found = /^([-+]?[\d,]*\.?\d+)\s*(ns|µs|ms|s|B|KiB|MiB|GiB)?/.exec(text);
    return found ? found[1].replaceAll(',', '') * (factors[found[2]] ?? 1) : undefined;
  };
  const compare = (isText, one, other) => {
    if (isText) return one.localeCompare(other, 'en', { numeric: true });
    return number(one) - number(other);
  };
  for (const table of all('table')) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    // Rows without a head are different figures, which have no order.
    if (rows.length > 1 && heads[0].textContent) heads.forEach((head, index) => {
      if (!head.textContent) return;
      const button = make('button', { type: 'button', textContent: head.textContent, title: 'Sort by this column' });
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const order = { ascending: 'descending', descending: undefined }[head.getAttribute('aria-sort')] ?? (head.hasAttribute('aria-sort') ? undefined : 'ascending');
        heads.forEach(other => other.removeAttribute('aria-sort'));
        if (order) head.setAttribute('aria-sort', order);
        table.classList.toggle('sorted', order !== undefined);
        const isText = head.classList.contains('w');
        const text = row => row.cells[index] ? main(row.cells[index]) : '';
        const isKnown = row => isText || number(text(row)) !== undefined;
        const known = rows.filter(isKnown).sort((one, other) => compare(isText, text(one), text(other)));
        if (order === 'descending') known.reverse();
        body.replaceChildren(...(order ? [...known, ...rows.filter(row => !isKnown(row))] : rows));
      });
    });
  }
  const plain = text => /^[-+]?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text) ? text.replaceAll(',', '') : text;
  const quoted = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const csv = table => {
    const heads = [...table.tHead.rows[0].cells].map(head => head.textContent);
    const rows = [...table.tBodies[0].rows].map(row => [...row.cells]);
    // A column of medians is followed by one for each of its ranges and intervals; a name by the verdict of its runs.
    const extras = heads.map((_, index) => Math.max(0, ...rows.map(row => row[index] ? all('small, .doubt', row[index]).length : 0)));
    const extraHead = index => place => index === 0 ? 'verdict' : `${heads[index]} (${place ? 'interval' : 'range'})`;
    const spread = (cells, extra) => cells.flatMap((cell, index) => [cell, ...Array.from({ length: extras[index] }, (_, place) => extra(index)(place))]);
    const lines = [spread(heads, extraHead), ...rows.map(row => spread(heads.map((_, index) => row[index] ? plain(main(row[index])) : ''),
      index => place => row[index] ? all('small, .doubt', row[index])[place]?.textContent ?? '' : ''))];
    return lines.map(line => line.map(quoted).join(',') + '\n').join('');
  };
  const copy = async text => {
    try { return await navigator.clipboard.writeText(text); } catch { /* The browser does not allow it: the old way. */ }
    const area = make('textarea', { value: text, className: 'said' });
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  };
  for (const box of all('.scroll')) {
    const button = make('button', { type: 'button', className: 'copy', textContent: 'Copy as CSV' });
    button.addEventListener('click', async () => {
      await copy(csv(box.firstElementChild));
      said.textContent = button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy as CSV'; }, 2000);
    });
    box.after(button);
    // A shade at the edge behind which more columns are.
    const mark = () => {
      const wrapper = box.parentNode, first = box.querySelector('tbody th, thead th');
      if (!wrapper.classList.contains('table')) return;
      wrapper.classList.toggle('less', box.scrollLeft > 1);
      wrapper.classList.toggle('more', box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
      wrapper.style.setProperty('--height', box.clientHeight + 'px');
      wrapper.style.setProperty('--first', (first?.offsetWidth ?? 0) + 1 + 'px');
    };
    box.addEventListener('scroll', mark, { passive: true });
    new ResizeObserver(mark).observe(box);
  }

  // A copy of the page alone has no files beside it.
  if (!decodeURIComponent(location.pathname).endsWith(document.body.dataset.place))
    for (const link of all('a.file')) link.removeAttribute('href');

  // Folded parts: opened by a link to them, and for printing.
  const reveal = () => {
    const fold = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.querySelector(':scope > details');
    if (fold) fold.open = true;
  };
  addEventListener('hashchange', reveal);
  for (const link of all('nav a')) link.addEventListener('click', () => setTimeout(reveal));
  reveal();
  addEventListener('beforeprint', () => all('details').forEach(fold => { fold.open = true; }));
}
