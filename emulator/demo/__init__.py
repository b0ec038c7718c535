"""The demo: deploys a fixture on a real host, kills it while an instance sleeps, and shows that it completes."""
