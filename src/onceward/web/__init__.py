"""The dashboard: pages, actions and a JSON API over one app, for a browser on this machine or behind a proxy."""
