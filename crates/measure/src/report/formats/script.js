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
  const time = ns => ns < 1e6 ? digits(ns / 1e3) + ' µs' : ns < 1e9 ? digits(ns / 1e6) + ' ms' : digits(ns / 1e9) + ' s';
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
    // Lines are read only when a cursor first needs them.
    let lines, note, cursor;
    const prepare = () => {
      lines = all('path.l, path.h', svg).map(path => ({ path, name: names.get(path.dataset.d), dashed: path.classList[0] === 'h', points: points(path) }));
      note = make('div', { className: 'read', hidden: true });
      cursor = document.createElementNS(svg.namespaceURI, 'path');
      cursor.setAttribute('class', 'cursor');
      svg.append(cursor);
      figure.append(note);
    };
    const reach = Math.max(12, isTime ? (box[1] - box[0]) / to * 0.75 : 0);
    const chart = { svg, box, width, timeline: svg.dataset.time, places: () => {
      if (!lines) prepare();
      return [...new Set(lines.filter(line => line.path.style.display !== 'none').flatMap(line => line.points.map(point => point[0])))].sort((a, b) => a - b);
    } };
    chart.share = x => (x - box[0]) / (box[1] - box[0]);
    chart.hide = () => { if (note) { note.hidden = true; cursor.removeAttribute('d'); } };
    chart.show = at => {
      if (!lines) prepare();
      const near = lines.filter(line => line.path.style.display !== 'none')
        .map(line => [line, line.points.reduce((best, point) => Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best)])
        .filter(([, point]) => Math.abs(point[0] - at) < reach);
      const place = near.length ? near[0][1][0] : at;
      cursor.setAttribute('d', `M${place} ${box[2]}V${box[3]}`);
      note.hidden = near.length === 0;
      if (note.hidden) return '';
      const x = value(svg.dataset.x, chart.share(place)), second = Math.floor(x + 0.01);
      const head = isTime ? `${second}–${second + 1} s` : unit === '%' ? 'p' + digits(x) : digits(x).toLocaleString('en') + unit;
      const show = y => unitOfValues === 'ns' ? time(y) : digits(y).toLocaleString('en') + unitOfValues;
      note.textContent = [head, ...near.map(([line, point]) => [line.name, line.dashed && '(dashed)',
        show(value(svg.dataset.y, (box[3] - point[1]) / (box[3] - box[2])))].filter(Boolean).join(' '))].join('\n');
      const frame = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
      const left = frame.x - outer.x + place / width * frame.width;
      note.style.top = frame.y - outer.y + box[2] / width * frame.width + 2 + 'px';
      note.style.left = (left + note.offsetWidth + 8 < outer.width ? left + 6 : Math.max(0, left - note.offsetWidth - 6)) + 'px';
      return note.textContent;
    };
    return chart;
  });
  // Charts of one time axis share a cursor.
  const linked = chart => charts.filter(other => other === chart || chart.timeline && other.timeline === chart.timeline && other.svg.checkVisibility());
  const showAll = (chart, at) => {
    for (const other of linked(chart)) if (other !== chart) other.show(other.box[0] + chart.share(at) * (other.box[1] - other.box[0]));
    return chart.show(at);
  };
  const hideAll = chart => { for (const other of linked(chart)) other.hide(); };
  for (const chart of charts) {
    const { svg, box, width } = chart;
    let at;
    svg.tabIndex = 0;
    svg.addEventListener('pointermove', event => {
      const frame = svg.getBoundingClientRect();
      at = (event.clientX - frame.x) / frame.width * width;
      if (at < box[0] - 4 || at > box[1] + 4) hideAll(chart); else showAll(chart, at);
    });
    svg.addEventListener('pointerleave', () => hideAll(chart));
    svg.addEventListener('blur', () => hideAll(chart));
    svg.addEventListener('keydown', event => {
      if (event.key === 'Escape') return hideAll(chart);
      const places = chart.places(), last = places.length - 1;
      const here = at === undefined ? -1 : places.findIndex(place => place >= at - 0.5);
      const next = { ArrowRight: Math.min(here < 0 && at !== undefined ? last : here + 1, last), ArrowLeft: Math.max((here < 0 ? last + 1 : here) - 1, 0), Home: 0, End: last }[event.key];
      if (next === undefined || last < 0) return;
      event.preventDefault();
      at = places[next];
      said.textContent = showAll(chart, at);
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
