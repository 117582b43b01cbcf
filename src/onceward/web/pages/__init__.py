"""The pages of the dashboard, one module for each subject: what it shows, and the actions on it."""
