"""The inspector: a page in the browser, served on this machine, that uses a server and shows what passes."""
