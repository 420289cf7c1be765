// Counts, and renders the counts as a Prometheus page.
'use strict';

const HELP = {
  presence_connections_open: ['gauge', 'Connections that are open'],
  presence_members: ['gauge', 'Members of rooms that are connected to this node'],
  presence_joins_total: ['counter', 'Joins that were accepted'],
  presence_heartbeats_total: ['counter', 'Heartbeats that were accepted'],
  presence_leaves_total: ['counter', 'Members that left, for any reason'],
  presence_events_total: ['counter', 'Events that were published'],
  presence_deliveries_total: ['counter', 'Events that were sent to a client, one for each client'],
};

class Metrics {
  members = 0;
  joins = 0;
  heartbeats = 0;
  leaves = 0;
  events = 0;
  deliveries = 0;

  /** Returns the page. */
  render(connectionsOpen) {
    const values = {
      presence_connections_open: connectionsOpen,
      presence_members: this.members,
      presence_joins_total: this.joins,
      presence_heartbeats_total: this.heartbeats,
      presence_leaves_total: this.leaves,
      presence_events_total: this.events,
      presence_deliveries_total: this.deliveries,
    };
    return Object.entries(values)
      .map(([name, value]) => {
        const [type, help] = HELP[name];
        return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${value}\n`;
      })
      .join('');
  }
}

module.exports = { Metrics };
