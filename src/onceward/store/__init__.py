"""All that knows SQL. Operations are written once, as generators; two stores run them (DESIGN: `drive`, `adrive`)."""
