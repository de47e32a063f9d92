"""Who acts: commands, mailboxes, the actors that own sessions, and the host that finds and supervises them."""
