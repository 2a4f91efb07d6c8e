"""The endpoints controller: Endpoints of Services that select Pods. `subsets` computes, `controller` reconciles."""
