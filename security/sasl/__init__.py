"""The mechanisms of SASL, of servers and clients: PLAIN, SCRAM, OAUTHBEARER."""
